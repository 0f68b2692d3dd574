/** `berth erase`: nothing that names a person stays in the history of a directory, and that of others is as it was. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runCommand } from '../support/command-line.ts';
import { hosted } from '../support/hosted.ts';
import { scratch } from '../support/scratch.ts';

test('names, addresses and usernames go from the history of one directory, then from that of its account', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { db } = api.database;
  const [one, other] = [await api.directory({ name: 'One' }), await api.directory({ name: 'Other' })];
  const { accountId: account_id } = api.tenant;
  for (const { id: directory_id, sftp_username: username } of [one, other]) {
    const row = {
      at: 1,
      directory_id,
      account_id,
      username,
      address: '192.0.2.7',
      session_pid: 1,
      bytes: 1,
      began_at: null,
    };
    await db
      .insertInto('transfers')
      .values({ ...row, event: 'uploaded', path: 'ann.csv', from_path: null })
      .execute();
    await db
      .insertInto('logins')
      .values({ directory_id, at: 1, kind: 'login', address: '192.0.2.7', text: 'x' })
      .execute();
    const delivery = {
      url: 'https://x.example',
      destination: 'd',
      attempts: 1,
      inserted_at: 1,
      due_at: null,
      upload_id: null,
    };
    const more = { ...delivery, replay_at: null, replayed_as: null, body: Buffer.from('ann.csv') };
    for (const state of ['delivered', 'queued'] as const) {
      const finished_at = state === 'delivered' ? 2 : null;
      await db
        .insertInto('deliveries')
        .values({ ...more, id: `${directory_id}-${state}`, directory_id, account_id, state, finished_at })
        .execute();
    }
  }
  const left = async (directory: string) => {
    const [transfers, logins, deliveries, audit] = await Promise.all([
      db.selectFrom('transfers').select('id').where('directory_id', '=', directory).execute(),
      db.selectFrom('logins').select('id').where('directory_id', '=', directory).execute(),
      db.selectFrom('deliveries').select('state').where('directory_id', '=', directory).orderBy('state').execute(),
      db.selectFrom('audit').select(['action', 'username', 'changes']).where('directory_id', '=', directory).execute(),
    ]);
    const names = audit.filter(({ username, changes }) => username !== '' || changes !== '{}');
    const states = deliveries.map(({ state }) => state).join();
    return [transfers.length, logins.length, states, audit.length > 0, names.length > 0] as const;
  };
  const all = [1, 1, 'delivered,queued', true, true] as const;
  const erased = [0, 0, 'queued', true, false] as const;

  const refused = await runCommand(place.environment, 'erase');
  assert.match(refused.stderr, /name a directory or give --account/);
  const { status, stdout, stderr } = await runCommand(place.environment, 'erase', one.sftp_username ?? '', '--yes');
  assert.equal(status, 0, stderr);
  assert.match(stdout, /^Erased of one-\S+ \(\S+\): 1 transfers, 1 logins and 1 webhooks; 1 rows of the audit/);
  assert.match(stdout, /still in backups[^]*journalctl --vacuum-time/);
  assert.deepEqual(await left(one.id ?? ''), erased);
  assert.deepEqual(await left(other.id ?? ''), all);
  assert.equal((await runCommand(place.environment, 'erase', '--account', account_id, '--yes')).status, 0);
  assert.deepEqual(await left(other.id ?? ''), erased);
});
