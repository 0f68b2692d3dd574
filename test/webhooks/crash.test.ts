/** A process crashes between claim and finish: the attempt is repeated and counted, and there is never a fifth. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claim, type Claimed, LEASE } from '../../src/deliveries/webhooks/queue.ts';
import { finish, type Finished } from '../../src/deliveries/webhooks/queue.ts';
import { promoteDue } from '../../src/deliveries/webhooks/queue.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { refuseWrites } from '../support/refused-writes.ts';
import { directory, type OutboxPlace, outboxPlace } from './outbox-place.ts';

/** Claims the one delivery and dies. */
async function claimAndDie(place: OutboxPlace, id: string): Promise<Claimed> {
  const { destination } = await place.delivery(id);
  const { claimed } = await place.database.db
    .transaction()
    .execute((tx) => claim(tx, [{ destination, count: 1 }], place.clock.now()));
  assert.ok(claimed[0]);
  return claimed[0];
}

/** Lets every lease end. */
async function endLeases(place: OutboxPlace): Promise<void> {
  await place.database.db.transaction().execute((tx) => promoteDue(tx, place.clock.now() + LEASE + 1));
}

const ANSWER: Omit<Finished, 'id' | 'attempts'> = {
  ok: true,
  status: 200,
  latency: 1,
  error: null,
  response: null,
  retryIn: undefined,
};

test('the attempt is written before anything is sent, and nobody else can claim it', async () => {
  await using place = await outboxPlace();
  const id = await place.put('http://127.0.0.1:9/');
  const { attempts } = await claimAndDie(place, id);
  assert.equal(attempts, 1);
  assert.partialDeepStrictEqual(await place.delivery(id), { state: 'running', attempts: 1 });
  assert.partialDeepStrictEqual(await place.attempts(id), [{ number: 1, finished_at: null }]);
  const { destination } = await place.delivery(id);
  const again = await place.database.db.transaction().execute((tx) => claim(tx, [{ destination, count: 1 }], 0));
  assert.deepEqual(again, { claimed: [], moves: [] });
});

test('while the lease runs a new start leaves it alone; when it has ended it repeats', async () => {
  await using place = await outboxPlace();
  await using target = await receiver();
  const id = await place.put(target.url);
  await claimAndDie(place, id);
  const dispatcher = place.start();
  await place.round(dispatcher);
  assert.equal(target.requests.length, 0);
  await endLeases(place);
  dispatcher.wake();
  await place.until(id, 'delivered');
  const [first, second] = await place.attempts(id);
  assert.equal(first?.error, 'berth stopped during this attempt');
  assert.partialDeepStrictEqual(second, { number: 2, status: 204 });
});

test('a lease that expires is noticed without a wake', async () => {
  await using place = await outboxPlace();
  await using target = await receiver();
  const id = await place.put(target.url);
  await claimAndDie(place, id);
  await place.database.db
    .updateTable('deliveries')
    .set({ due_at: place.clock.now() + 300_000 })
    .execute();
  place.start();
  await place.until(id, 'delivered');
});

test('four crashes end a delivery: there is no fifth request', async () => {
  await using place = await outboxPlace();
  await using target = await receiver();
  const id = await place.put(target.url);
  for (let number = 1; number <= 4; number += 1) {
    assert.equal((await claimAndDie(place, id)).attempts, number);
    await endLeases(place);
  }
  const dispatcher = place.start();
  const row = await place.until(id, 'failed');
  await place.round(dispatcher);
  assert.equal(row.attempts, 4);
  assert.equal(target.requests.length, 0);
});

test('an attempt that has lost its lease cannot finish in the name of the next', async () => {
  await using place = await outboxPlace();
  const id = await place.put('http://127.0.0.1:9/');
  const stale = await claimAndDie(place, id);
  await endLeases(place);
  const current = await claimAndDie(place, id);
  const conclude = (attempts: number): Promise<void> =>
    place.database.db.transaction().execute((tx) => finish(tx, [{ id, attempts, ...ANSWER }], 1));
  await conclude(stale.attempts);
  assert.partialDeepStrictEqual(await place.delivery(id), { state: 'running', attempts: 2 });
  await conclude(current.attempts);
  assert.equal((await place.delivery(id)).state, 'delivered');
});

test('a delivery that went with its directory can be finished without harm', async () => {
  await using place = await outboxPlace();
  const { db } = place.database;
  const id = await place.put('http://127.0.0.1:9/');
  const { attempts } = await claimAndDie(place, id);
  await db.deleteFrom('deliveries').where('directory_id', '=', directory('http://127.0.0.1:9/').id).execute();
  await db.transaction().execute((tx) => finish(tx, [{ id, attempts, ...ANSWER }], 1));
  assert.deepEqual(await db.selectFrom('attempts').selectAll().execute(), []);
});

test('an outcome that the database refuses is kept and recorded later, without another request', async () => {
  await using place = await outboxPlace();
  await using target = await receiver();
  const { db } = place.database;
  // What a full disk does to the transaction.
  const allow = await refuseWrites(db, 'update on deliveries', "new.state = 'delivered'");
  const dispatcher = place.start();
  const id = await place.put(target.url);
  dispatcher.wake();
  await target.next();
  await until('the database has refused it', () => place.errors.length > 0);
  assert.equal((await place.delivery(id)).state, 'running');
  await allow();
  assert.equal((await place.until(id, 'delivered')).attempts, 1);
  assert.equal(target.requests.length, 1);
});
