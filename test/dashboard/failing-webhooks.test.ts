/** Directories whose webhooks fail now, against a model, and the indexes that find them. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { failingWebhooks, problemsOf, webhookState } from '../../src/deliveries/webhooks/health.ts';
import type { DeliveryState, Tables } from '../../src/foundation/db/schema.ts';
import type { Updateable } from 'kysely';
import { sqliteOnly } from '../support/postgres.ts';
import { plansOf } from '../support/query-plan.ts';
import { ACCOUNT, type OutboxPlace, outboxPlace } from '../webhooks/outbox-place.ts';
import { SEED } from '../support/seed.ts';
import { randomOf } from '../support/random-of.ts';

/** A directory with deliveries in these states, the oldest first; `at` of the first is 1. */
async function directory(place: OutboxPlace, states: readonly DeliveryState[]): Promise<string> {
  const url = `https://${randomUUID()}.example/hook`;
  const { id } = (await place.event(url)).directory;
  await place.database.db.transaction().execute(async (tx) => {
    for (const [index, state] of states.entries()) {
      const to = { id: randomUUID(), directory_id: id, account_id: ACCOUNT, url, destination: url };
      await tx
        .insertInto('deliveries')
        .values({ ...to, body: Buffer.from('{}'), state, attempts: 0, inserted_at: index + 1 })
        .execute();
    }
  });
  return id;
}

/** When the first was created that was given up since the last one that was delivered. */
function expected(states: readonly DeliveryState[]): number | undefined {
  const delivered = states.lastIndexOf('delivered');
  const [since] = states.flatMap((state, index) => (state === 'failed' && index > delivered ? [index + 1] : []));
  return since;
}

test('a webhook fails when its last delivery was given up, with nothing delivered since', async () => {
  await using place = await outboxPlace();
  const { reads } = place.database;
  const known = new Map<string, number | undefined>();
  const kinds: readonly DeliveryState[] = ['queued', 'running', 'waiting', 'delivered', 'failed'];
  const next = randomOf(SEED);
  const random = (limit: number): number => Math.floor(next() * limit);
  const several: DeliveryState[][] = [
    [],
    ['failed'],
    ['delivered', 'failed', 'failed', 'waiting'],
    ['failed', 'delivered'],
    ['failed', ...Array<DeliveryState>(99).fill('queued'), 'delivered'],
    ['failed', ...Array<DeliveryState>(100).fill('queued'), 'delivered'],
    ['delivered', ...Array<DeliveryState>(150).fill('failed')],
    ...Array.from({ length: 40 }, () => Array.from({ length: random(8) }, () => kinds[random(5)] ?? 'queued')),
  ];
  const states = new Map<string, readonly DeliveryState[]>();
  for (const each of several) {
    const id = await directory(place, each);
    known.set(id, expected(each));
    states.set(id, each);
  }
  const wanted = [...known].flatMap(([id, of]) => (of === undefined ? [] : [[id, of] as const]));
  assert.deepEqual(await failingWebhooks(reads, [...known.keys(), randomUUID()]), new Map(wanted));
  const [one = ''] = known.keys();
  assert.deepEqual(await failingWebhooks(reads, [one]), new Map());
  assert.deepEqual(await failingWebhooks(reads, []), new Map());

  const failures = (of: readonly DeliveryState[]): number[] =>
    of.flatMap((state, at) => (state === 'failed' ? [at + 1] : []));
  const all = await problemsOf(reads, { accountId: ACCOUNT }, 100);
  assert.deepEqual(
    all.map(({ id, since, open, delivered_at }) => [open, since, id, delivered_at]),
    [...states]
      .flatMap(([id, of]) => {
        const [since] = failures(of);
        return since === undefined ? [] : [[failures(of).length, since, id, of.lastIndexOf('delivered') + 1] as const];
      })
      .toSorted(([m, a, x], [n, b, y]) => n - m || a - b || (x < y ? -1 : 1)),
    'those with the most to send first, with all that failed, also before the last that was delivered',
  );
  assert.equal(all[0]?.name, 'Orders');
  assert.deepEqual(await problemsOf(reads, { accountId: ACCOUNT }, 2), all.slice(0, 2));
  assert.deepEqual(await problemsOf(reads, { accountId: randomUUID() }, 100), []);
  const directoryId = all[1]?.id;
  assert.deepEqual(await problemsOf(reads, { accountId: ACCOUNT, directoryId }, 2), all.slice(1, 2));
});

test('a directory without a URL fails only where its account has one that it uses; a deleted one fails no more', async () => {
  await using place = await outboxPlace();
  const { db, reads } = place.database;
  const id = await directory(place, ['failed']);
  const fails = async () => {
    const found = (await failingWebhooks(reads, [id])).size;
    assert.equal((await problemsOf(reads, { accountId: ACCOUNT }, 10)).length, found);
    return found === 1;
  };
  const set = (changes: Updateable<Tables['directories']>) =>
    db.updateTable('directories').set(changes).where('id', '=', id).execute();
  const setAccount = (url: string | null) =>
    db
      .insertInto('account_webhooks')
      .values({ account_id: ACCOUNT, url, secret: '', next_secret: null })
      .onConflict((conflict) => conflict.column('account_id').doUpdateSet({ url }))
      .execute();
  assert.equal(await fails(), true);
  await set({ webhook_url: null });
  assert.equal(await fails(), false);
  await setAccount('https://example.com/hook');
  assert.equal(await fails(), true);
  await set({ uses_account_webhook: 0 });
  assert.equal(await fails(), false);
  await set({ uses_account_webhook: 1 });
  await setAccount(null);
  assert.equal(await fails(), false);
  await set({ webhook_url: 'https://example.com/own', uses_account_webhook: 0 });
  assert.equal(await fails(), true);
  await set({ deleted_at: 1 });
  assert.equal(await fails(), false);
});

test('what is about to be sent again needs no attention, but is counted until it is sent', async () => {
  await using place = await outboxPlace();
  const { db, reads } = place.database;
  const id = await directory(place, ['failed', 'failed', 'failed']);
  const mark = (inserted_at: number, values: Updateable<Tables['deliveries']>) =>
    db
      .updateTable('deliveries')
      .set(values)
      .where('directory_id', '=', id)
      .where('inserted_at', '=', inserted_at)
      .execute();
  const countsOf = async () =>
    (await problemsOf(reads, { accountId: ACCOUNT }, 10)).map(({ open, sending }) => [open, sending]);
  assert.deepEqual(await countsOf(), [[3, 0]]);
  await mark(1, { replay_at: 1 });
  assert.deepEqual(await countsOf(), [[2, 1]]);
  await mark(1, { replay_at: null, replayed_as: randomUUID() });
  assert.deepEqual(await countsOf(), [[2, 0]]);
  for (const at of [2, 3]) await mark(at, { replayed_as: randomUUID() });
  assert.deepEqual(await countsOf(), []);
});

test('no query reads whole tables', sqliteOnly, async () => {
  await using place = await outboxPlace();
  const { reads } = place.database;
  const plans = [
    ...(await plansOf(reads, (db) => failingWebhooks(db, ['a']))),
    ...(await plansOf(reads, (db) => problemsOf(db, { accountId: ACCOUNT }, 10))),
  ];
  assert.equal(plans.length, 3);
  for (const line of plans.flat()) {
    assert.doesNotMatch(line, /^SCAN (?:deliveries|directories|d)\b/, line);
    if (line.startsWith('SEARCH deliveries'))
      assert.match(line, /INDEX deliveries_(?:failed_of|delivered_of|failed_in_account|tests|to_replay) /);
  }
});

test('the last attempt of a webhook is found without reading all deliveries', sqliteOnly, async () => {
  await using place = await outboxPlace();
  const plans = await plansOf(place.database.reads, (db) => webhookState(db, 'a', 'https://example.com/hook'));
  for (const line of plans.flat()) assert.doesNotMatch(line, /deliveries_by_directory|^SCAN deliveries/, line);
});
