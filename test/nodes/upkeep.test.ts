/** Two nodes can run their background work at once without harm. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createKey, USED_API_KEYS } from '../../src/rules/api-keys/api-keys.ts';
import { createBackground } from '../../src/foundation/base/background.ts';
import { createClockLead } from '../../src/foundation/db/clock-lead.ts';
import { DAY } from '../../src/foundation/base/clock.ts';
import { createDirectory } from '../../src/rules/directories/create.ts';
import { noteStorage } from '../../src/rules/history/daily-totals.ts';
import { pruneHistory } from '../../src/rules/history/removal.ts';
import { createLastUsed } from '../../src/rules/api-keys/last-used.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { removeExpired } from '../../src/rules/users/sessions.ts';
import { createUser } from '../../src/rules/users/users.ts';
import { setClock } from '../support/set-clock.ts';
import { operator } from '../support/users.ts';
import { twoWriters } from './two-writers.ts';

const log = createLog('silent');
const HOUR = 3_600_000_000;

test('when a key was last used is the latest that any node has seen', async () => {
  await using nodes = await twoWriters();
  const account = await nodes.account();
  const keys = [];
  for (let i = 0; i < 40; i += 1)
    keys.push((await createKey(nodes.one, { accountId: account }, { role: 'admin', name: 'A' })).id);
  await using parts = new AsyncDisposableStack();
  const failed: string[] = [];
  const [one, other] = [nodes.one, nodes.other].map((node) => {
    const background = createBackground(createLog('error', { write: (line) => void failed.push(line) }));
    return parts.adopt(createLastUsed({ ...node, background, of: USED_API_KEYS }), (used) => used.close());
  });
  const now = nodes.one.clock.now();
  for (let round = 0; round < 15; round += 1) {
    for (const [i, key] of keys.entries()) {
      one?.note(key, now + round);
      other?.note(keys[keys.length - 1 - i] ?? '', now + round - 1000);
    }
    await Promise.all([one?.flush(), other?.flush()]);
  }
  // A node that is behind writes last.
  if (nodes.isShared) {
    for (const key of keys) other?.note(key, now);
    await other?.flush();
    const rows = await nodes.reads.selectFrom('api_keys').select('last_used_at').execute();
    assert.deepEqual(new Set(rows.map(({ last_used_at }) => last_used_at)), new Set([now + 14]));
  }
  assert.deepEqual(failed, []);
});

test('clocks five minutes apart do not count as set; a jump by days does', async (t) => {
  await using nodes = await twoWriters();
  if (!nodes.isShared) return t.skip('with SQLite there is one clock');
  const [clocks, steady] = [[setClock(), setClock()], setClock()];
  clocks[1]?.advance(5 * 60_000_000);
  const leads = [nodes.one, nodes.other].map(({ database }, i) =>
    createClockLead({
      database,
      clock: clocks[i] ?? nodes.one.clock,
      log,
      monotonic: () => steady.now() / 1000,
    }),
  );
  for (let round = 0; round < 20; round += 1) {
    for (const clock of [...clocks, steady]) clock.advance(60_000_000);
    for (const reading of await Promise.all(leads.map((lead) => lead()))) assert.equal(reading.lead, 0);
  }
  clocks[0]?.advance(3 * DAY);
  const [ahead] = leads;
  for (let round = 0; round < 5; round += 1) {
    assert.ok(Math.abs(((await ahead?.())?.lead ?? 0) - 3 * DAY) <= HOUR);
    assert.ok(Math.abs((await leads[1]?.())?.lead ?? DAY) <= HOUR);
  }
});

test('old history, links and sessions go once, storage is noted once, whichever node does it', async () => {
  await using nodes = await twoWriters();
  const { one, other, reads } = nodes;
  const account = await nodes.account();
  const { directory } = await createDirectory(one, { accountId: account }, { name: 'Orders' });
  await createUser(one, operator(account), { email: 'ann@example.com', role: 'admin' });
  await one.database.db.updateTable('user_links').set({ expires_at: 1 }).execute();
  const of = { directory_id: directory.id, account_id: account };
  const transfers = Array.from({ length: 1800 }, (_, at) => ({ ...of, at, event: 'uploaded' as const, username: 'u' }));
  for (let i = 0; i < transfers.length; i += 300)
    await one.database.db
      .insertInto('transfers')
      .values(transfers.slice(i, i + 300))
      .execute();
  const deliveries = Array.from({ length: 900 }, (_, i) => ({
    ...of,
    id: `d${i}`,
    url: 'http://127.0.0.1:1/',
    destination: 'x',
    body: Buffer.from('{}'),
    state: 'delivered' as const,
    attempts: 1,
    inserted_at: i,
    finished_at: i,
  }));
  for (let i = 0; i < deliveries.length; i += 300)
    await one.database.db
      .insertInto('deliveries')
      .values(deliveries.slice(i, i + 300))
      .execute();
  const { signal } = new AbortController();
  const upkeep = async (node: typeof one): Promise<void> => {
    const options = { ...node, config: { ...node.config, historyDays: 1 } };
    await pruneHistory(options, signal);
    await removeExpired(options, signal);
    await noteStorage(options);
  };
  await Promise.all([upkeep(one), upkeep(other)]);
  // A batch that the other one held is left for the next time.
  await upkeep(one);
  for (const table of ['transfers', 'deliveries', 'user_links'] as const)
    assert.deepEqual(await reads.selectFrom(table).selectAll().execute(), [], table);
  const storage = await reads.selectFrom('daily_totals').select('owner_id').where('kind', '=', 'storage').execute();
  assert.ok(storage.length >= 1 && storage.every(({ owner_id }) => owner_id === account));
});
