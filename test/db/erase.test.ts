/** `berth erase`: nothing that names a person stays in the history of a directory, and that of others is as it was. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import Sqlite from 'better-sqlite3';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { backUp } from '../../src/operating/backup/backup.ts';
import { runCommand, runHere } from '../support/command-line.ts';
import { hosted } from '../support/hosted.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { scratch, type Scratch } from '../support/scratch.ts';

const EVENT = JSON.stringify({
  event: 'file.uploaded',
  directory_id: '18db3dc8-bfa8-4427-9a27-af3b079ff5b8',
  external_id: 'ann',
  filename: 'ann.csv',
  size_bytes: 1,
  uploaded_at: '2026-11-20T20:50:00.123456Z',
  directory: 'ann',
});

const USER = {
  id: 'u',
  email: 'ann@example.com',
  role: 'admin',
  password_hash: null,
  totp_secret: null,
  totp_step: 0,
  oidc_subject: null,
  inserted_at: 1,
  signed_in_at: 1,
  signed_in_from: '192.0.2.7',
  disabled_at: null,
} as const;

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
    await db
      .insertInto('events')
      .values({ account_id, at: 1, event: 'file.uploaded', directory_id, upload_id: null, body: EVENT })
      .execute();
    for (const state of ['delivered', 'queued'] as const) {
      const finished_at = state === 'delivered' ? 2 : null;
      await db
        .insertInto('deliveries')
        .values({ ...more, id: `${directory_id}-${state}`, directory_id, account_id, state, finished_at })
        .execute();
    }
  }
  const left = async (directory: string) => {
    const [transfers, logins, deliveries, audit, events] = await Promise.all([
      db.selectFrom('transfers').select('id').where('directory_id', '=', directory).execute(),
      db.selectFrom('logins').select('id').where('directory_id', '=', directory).execute(),
      db.selectFrom('deliveries').select('state').where('directory_id', '=', directory).orderBy('state').execute(),
      db.selectFrom('audit').selectAll().where('directory_id', '=', directory).execute(),
      db.selectFrom('events').selectAll().where('directory_id', '=', directory).execute(),
    ]);
    const names = audit.filter(({ username, changes }) => username !== '' || changes !== '{}');
    const states = deliveries.map(({ state }) => state).join();
    const named = events.filter(({ body }) => body.includes('ann'));
    return [transfers.length, logins.length, states, audit.length > 0, names.length > 0, named.length] as const;
  };
  const all = [1, 1, 'delivered,queued', true, true, 1] as const;
  const erased = [0, 0, 'queued', true, false, 0] as const;
  const erasures = () =>
    db
      .selectFrom('audit')
      .select(['directory_id', 'account_id', 'key_id', 'route'])
      .where('action', '=', 'erase')
      .execute();

  const environment = { ...place.environment, SUDO_USER: 'ann' };
  const refused = await runCommand(place.environment, 'erase');
  assert.match(refused.stderr, /give either a directory or --account/);
  const { status, stdout, stderr } = await runHere(environment, 'erase', one.sftp_username ?? '', '--yes');
  assert.equal(status, 0, stderr);
  assert.match(
    stdout,
    /^Erased of one-\S+ \(\S+\): 1 transfer, 1 login, 1 webhook and 0 networks of users; 1 event and 1 row of the audit/,
  );
  assert.match(stdout, /still in backups[^]*journalctl --vacuum-time/);
  assert.deepEqual(await left(one.id ?? ''), erased);
  assert.deepEqual(await left(other.id ?? ''), all);
  const by = { account_id, key_id: 'operator:ann', route: 'berth erase' };
  assert.deepEqual(await erasures(), [{ ...by, directory_id: one.id }], 'the audit says who erased what');

  // The remains of its deleted directories go with an account, and the addresses from which its users have signed in.
  await db
    .deleteFrom('audit')
    .where('directory_id', '=', other.id ?? '')
    .execute();
  await db
    .insertInto('users')
    .values({ ...USER, account_id })
    .execute();
  await db.insertInto('user_networks').values({ user_id: USER.id, network: '192.0.2.7', seen_at: 1 }).execute();
  const feed = async () => {
    const { json } = await api.tenant.send('GET', '/events');
    return (json as { data: { sequence: number; event: string }[] }).data.map(({ sequence, event }) => [
      sequence,
      event,
    ]);
  };
  assert.deepEqual(await feed(), [
    [1, 'erased'],
    [2, 'file.uploaded'],
  ]);
  const account = await runHere(environment, 'erase', '--account', account_id, '--yes');
  assert.equal(account.status, 0, account.stderr);
  assert.deepEqual(await left(other.id ?? ''), [0, 0, 'queued', false, false, 0]);
  assert.deepEqual((await erasures())[1], { ...by, directory_id: '' });
  assert.deepEqual(
    await feed(),
    [
      [1, 'erased'],
      [2, 'erased'],
    ],
    'the feed has no gap',
  );
  assert.deepEqual(await db.selectFrom('user_networks').selectAll().execute(), []);
  assert.deepEqual(await db.selectFrom('users').select('signed_in_from').execute(), [{ signed_in_from: null }]);
});

test('names in events that somebody asked for go as well, and what is left is such an event', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id: directory_id, sftp_username } = await api.directory();
  const { accountId: account_id } = api.tenant;
  const whose = { directory_id, external_id: 'ann', directory: 'ann' };
  const at = '2026-11-20T20:50:00.123456Z';
  const bodies = [
    { event: 'file.renamed', ...whose, filename: 'ann.csv', previous_filename: 'ann-before.csv', renamed_at: at },
    { event: 'login.refused', ...whose, sftp_username: 'ann', address: '192.0.2.7', reason: 'ann', refused_at: at },
  ] as const;
  for (const body of bodies)
    await api.database.db
      .insertInto('events')
      .values({ account_id, at: 1, event: body.event, directory_id, upload_id: null, body: JSON.stringify(body) })
      .execute();
  const { status, stderr } = await runHere(place.environment, 'erase', sftp_username, '--yes');
  assert.equal(status, 0, stderr);
  const { text } = await api.send('GET', '/events');
  assert.equal(text.match(/"event":"erased"/g)?.length, 2);
  assert.doesNotMatch(text, /ann|192\.0\.2\.7/);
});

// Deleted rows, which held hashes, keys and webhook secrets, are gone from the file, its write-ahead log and every
// backup.

const holds = (file: string, secret: string): boolean => existsSync(file) && readFileSync(file).includes(secret);

async function backupOf({ config, dir }: Scratch): Promise<string> {
  const file = join(dir, 'backup');
  const stop = new AbortController().signal;
  await backUp(config, { clock: systemClock(), file, settings: join(dir, 'none'), stop });
  return file;
}

test('a deleted directory leaves none of its secrets behind', sqliteOnly, async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { databaseFile } = place.config;
  const kept = await api.directory();
  const { id } = await api.directory({ description: 'MARK-'.repeat(100) });
  const secretsOf = (directory: string) =>
    api.database.reads
      .selectFrom('directories')
      .select(['webhook_secret', 'password_hash'])
      .where('id', '=', directory)
      .executeTakeFirstOrThrow();
  const secrets = [...Object.values(await secretsOf(id)), 'MARK-MARK-'];
  const files = [databaseFile, `${databaseFile}-wal`];
  for (const secret of secrets) assert.ok(files.some((file) => holds(file, secret)));

  assert.equal((await api.send('DELETE', `/directories/${id}`)).status, 204);
  await api.rules.removal.idle();
  const backup = await backupOf(place);
  for (const secret of secrets) {
    for (const file of [...files, backup]) assert.ok(!holds(file, secret), `${file} holds a deleted secret`);
  }
  const { webhook_secret: live } = await secretsOf(kept.id);
  assert.ok(holds(backup, live), 'and the backup holds the others');
});

test('a backup leaves out what an earlier berth has left in free pages', sqliteOnly, async () => {
  using place = scratch();
  {
    await using _made = await hosted(place);
  }
  const sqlite = new Sqlite(place.config.databaseFile);
  sqlite.pragma('secure_delete = off');
  sqlite.exec("create table old (text); insert into old values ('OLD-SECRET-' || hex(zeroblob(9000))); drop table old");
  sqlite.close();
  assert.ok(holds(place.config.databaseFile, 'OLD-SECRET-'));
  assert.ok(!holds(await backupOf(place), 'OLD-SECRET-'));
});
