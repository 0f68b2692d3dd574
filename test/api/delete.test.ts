/** DELETE /api/v1/directories/:id, and what follows in the background. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Database } from '../../src/foundation/db/open.ts';
import { applyPending } from '../../src/rules/directories/pending-apply.ts';
import { deleteDirectory } from '../../src/rules/directories/delete.ts';
import { createRowRemoval } from '../../src/rules/directories/row-removal.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { dataOf } from '../support/field-sets.ts';
import { hosted } from '../support/hosted.ts';
import { systemError } from '../support/recording-host.ts';
import { scratch } from '../support/scratch.ts';

async function addFiles({ db }: Database, directory_id: string, count: number): Promise<void> {
  const row = { directory_id, size_bytes: 1, state: 'uploaded', inode: 1, mtime: 1, source: 'log' } as const;
  await db.transaction().execute(async (tx) => {
    for (let i = 0; i < count; i += 1) {
      const file = { ...row, id: randomUUID(), path: Buffer.from(`f${i}`), uploaded_at: i, session_pid: null };
      await tx.insertInto('files').values(file).execute();
    }
  });
}

async function addDelivery({ db }: Database, directory_id: string, account_id: string): Promise<void> {
  const id = randomUUID();
  const times = { inserted_at: 1, due_at: 1, finished_at: null };
  const content = { url: 'http://x', destination: 'x', body: Buffer.from('{}') };
  await db
    .insertInto('deliveries')
    .values({ id, directory_id, account_id, state: 'queued', attempts: 1, ...times, ...content })
    .execute();
  const outcome = { finished_at: null, status: null, latency_us: null, error: null, response: null };
  await db
    .insertInto('attempts')
    .values({ delivery_id: id, number: 1, started_at: 1, ...outcome })
    .execute();
}

async function rowsIn({ db }: Database, table: 'files' | 'deliveries' | 'attempts' | 'directories' | 'unapplied') {
  const { n } = await db
    .selectFrom(table)
    .select(({ fn }) => fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow();
  return n;
}

test('204: gone for every endpoint at once, taken from the host, rows removed, the name and UID kept', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const [doomed, spared] = [await api.directory(), await api.directory()];
  for (const { id } of [doomed, spared]) {
    await addFiles(api.database, id, 2500);
    await addDelivery(api.database, id, api.tenant.accountId);
  }
  const answer = await api.send('DELETE', `/directories/${doomed.id}`);
  assert.deepEqual([answer.status, answer.text], [204, '']);
  assert.ok(!api.host.served.has(doomed.sftp_username));
  for (const method of ['GET', 'PATCH', 'DELETE']) {
    assert.equal((await api.send(method, `/directories/${doomed.id}`)).status, 404, method);
  }
  assert.deepEqual(
    dataOf<{ id: string }[]>(await api.send('GET', '/directories')).map(({ id }) => id),
    [spared.id],
  );

  await api.rules.removal.idle();
  await applyPending({ ...api.rules, log: createLog('silent') });
  assert.equal(await rowsIn(api.database, 'files'), 2500);
  assert.equal(await rowsIn(api.database, 'deliveries'), 1);
  assert.equal(await rowsIn(api.database, 'attempts'), 1);
  assert.equal(await rowsIn(api.database, 'directories'), 1);
  assert.equal(await rowsIn(api.database, 'unapplied'), 0);
  const principals = await api.database.db.selectFrom('principals').select('username').execute();
  assert.ok(principals.some(({ username }) => username === doomed.sftp_username));
});

test('the next start completes a deletion that a stop has interrupted', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id, sftp_username } = await api.directory();
  await addFiles(api.database, id, 1500);
  const stopped = createRowRemoval({ database: api.database, log: createLog('silent'), host: api.host });
  await stopped.close();
  const { database, clock, host, placement } = api.rules;
  await deleteDirectory({ database, clock, host, placement, removal: stopped }, api.tenant.accountId, id);
  assert.equal(await rowsIn(database, 'files'), 1500);

  api.host.calls.length = 0;
  const failed = await applyPending({
    database,
    host,
    placement,
    removal: api.rules.removal,
    log: createLog('silent'),
  });
  assert.equal(failed, 0);
  assert.deepEqual(api.host.calls, [`remove ${sftp_username}`]);
  await api.rules.removal.idle();
  assert.equal(await rowsIn(database, 'files'), 0);
  assert.equal(await rowsIn(database, 'directories'), 0);
});

test('the next start applies a change that a stop has interrupted; if it fails, the start after that does', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id, sftp_username } = await api.directory();
  api.host.fail(systemError('ENOSPC'));
  await api.send('PATCH', `/directories/${id}`, { json: { directory: { auth_mode: 'public_key' } } });
  assert.equal(api.host.served.get(sftp_username)?.auth_mode, 'password');
  const repeat = () => applyPending({ ...api.rules, log: createLog('silent') });
  assert.equal(await repeat(), 1);
  assert.equal(await rowsIn(api.database, 'unapplied'), 1);
  api.host.fail(undefined);
  assert.equal(await repeat(), 0);
  assert.equal(api.host.served.get(sftp_username)?.auth_mode, 'public_key');
  assert.equal(await rowsIn(api.database, 'unapplied'), 0);
});
