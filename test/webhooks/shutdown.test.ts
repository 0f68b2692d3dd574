/** Closing the dispatcher: nothing is lost, nothing stays behind. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Dispatcher } from '../../src/deliveries/webhooks/dispatcher.ts';
import { enqueue, type UploadEvent } from '../../src/deliveries/webhooks/outbox.ts';
import { until } from '../support/poll.ts';
import { type Received, receiver } from '../support/receiver.ts';
import { refuseWrites } from '../support/refused-writes.ts';
import { outboxPlace, type OutboxPlace } from './outbox-place.ts';

// First, since sockets that other tests closed would count.
test('no timer and no socket is left behind', async () => {
  const resources = (): string[] =>
    process.getActiveResourcesInfo().filter((kind) => /Timeout|Immediate|TCP|UDP/.test(kind));
  const before = resources();
  {
    await using target = await receiver({
      respond: (response, _, index) => response.writeHead(index % 2 ? 204 : 500).end(),
    });
    await using place = await outboxPlace();
    const dispatcher = place.start();
    const ids: string[] = [];
    for (let count = 0; count < 10; count += 1) ids.push(await place.put(target.url));
    dispatcher.wake();
    for (const id of ids) await place.until(id, 'delivered', 'failed');
  }
  // Sockets report their end a turn of the event loop later.
  await until('they have ended', () => resources().length <= before.length);
  assert.deepEqual(resources(), before);
});

test('an attempt that ends soon is waited for and recorded, and nothing more is claimed', async () => {
  await using place = await outboxPlace();
  let answer = (): void => undefined;
  await using target = await receiver({
    respond: (response) => void (answer = () => response.writeHead(204).end()),
  });
  const dispatcher = place.start();
  const id = await place.put(target.url);
  dispatcher.wake();
  await target.next();
  const closed = dispatcher.close();
  const later = await place.put(target.url);
  dispatcher.wake();
  answer();
  await closed;
  assert.equal((await place.delivery(id)).state, 'delivered');
  assert.partialDeepStrictEqual(await place.delivery(later), { state: 'queued', attempts: 0 });
  assert.equal(target.requests.length, 1);
});

test('an attempt that hangs is handed back, and the next start repeats it at once', async () => {
  await using place = await outboxPlace({ retryDelays: [60, 60, 60] });
  await using target = await receiver({
    respond: (response, _request, index) => void (index > 0 && response.writeHead(204).end()),
  });
  const dispatcher = place.start();
  const id = await place.put(target.url);
  dispatcher.wake();
  await target.next();
  await dispatcher.close();
  // It was not waited for until its own end: that says "no answer within 5 s".
  assert.partialDeepStrictEqual(await place.delivery(id), { state: 'queued', attempts: 1 });
  assert.equal((await place.attempts(id))[0]?.error, 'berth stopped during this attempt');

  place.start();
  await place.until(id, 'delivered');
  assert.equal((await place.delivery(id)).attempts, 2);
});

// Webhooks are claimed in the transaction that enqueues them, and sent as soon as it is committed.

/** Uploads these files with one transaction. */
async function upload(place: OutboxPlace, { transact }: Dispatcher, url: string, ...names: string[]): Promise<void> {
  const events: UploadEvent[] = [];
  for (const filename of names) events.push(await place.event(url, { filename }));
  return transact(async (tx) => ({ value: undefined, destinations: await enqueue(tx, ...events) }));
}

async function states(place: OutboxPlace): Promise<string[]> {
  const rows = await place.database.db.selectFrom('deliveries').select('state').orderBy('inserted_at').execute();
  return rows.map(({ state }) => state);
}

const nameOf = ({ body }: Received): string => (JSON.parse(body.toString()) as { filename: string }).filename;

test('a webhook that there is room for is claimed in the same commit, and its attempt written before it is sent', async () => {
  await using place = await outboxPlace();
  await using target = await receiver({ respond: () => undefined });
  const dispatcher = place.start();
  await upload(place, dispatcher, target.url, 'a');
  const row = await place.database.db.selectFrom('deliveries').selectAll().executeTakeFirstOrThrow();
  assert.partialDeepStrictEqual(row, { state: 'running', attempts: 1 });
  assert.partialDeepStrictEqual(await place.attempts(row.id), [{ number: 1, finished_at: null }]);
  const { headers, body } = await target.next();
  assert.equal(headers['webhook-id'], row.id);
  assert.deepEqual(body, row.body);
  await dispatcher.close();
});

test('a transaction that fails sends nothing and holds no slot', async () => {
  await using place = await outboxPlace();
  await using target = await receiver();
  const dispatcher = place.start();
  const event = await place.event(target.url, { uploadedAt: 1 });
  for (let count = 0; count < 3; count += 1) {
    const failed = dispatcher.transact(async (tx) => {
      await enqueue(tx, event);
      throw new Error('no row for this upload');
    });
    await assert.rejects(failed, /no row for this upload/);
  }
  assert.deepEqual(await states(place), []);
  await upload(place, dispatcher, target.url, 'a', 'b');
  assert.deepEqual(new Set([nameOf(await target.next()), nameOf(await target.next())]), new Set(['a', 'b']));
  assert.equal(target.requests.length, 2);
});

test('a commit that the database refuses sends nothing, and its slots are free again', async () => {
  await using place = await outboxPlace();
  await using target = await receiver();
  const { db } = place.database;
  const dispatcher = place.start();
  await upload(place, dispatcher, 'http://127.0.0.1:9/', 'warm-up');
  // What a full disk does when the claim is written.
  const allow = await refuseWrites(db, 'insert on attempts');
  for (let count = 0; count < 3; count += 1) {
    await assert.rejects(upload(place, dispatcher, target.url, 'refused'), /disk full/);
  }
  await allow();
  await upload(place, dispatcher, target.url, 'a', 'b');
  assert.deepEqual(new Set([nameOf(await target.next()), nameOf(await target.next())]), new Set(['a', 'b']));
});

test('transactions beyond the limit wait for a slot, and the one that has waited longest goes first', async () => {
  await using place = await outboxPlace();
  const held: (() => void)[] = [];
  await using target = await receiver({
    respond: (response) => void held.push(() => response.writeHead(204).end()),
  });
  const dispatcher = place.start();
  await upload(place, dispatcher, target.url, 'a', 'b', 'c');
  assert.deepEqual((await states(place)).toSorted(), ['queued', 'running', 'running']);
  await upload(place, dispatcher, target.url, 'd');
  assert.deepEqual((await states(place)).toSorted(), ['queued', 'queued', 'running', 'running']);
  for (let count = 0; count < 4; count += 1) {
    await target.next();
    held.shift()?.();
  }
  const names = target.requests.map(nameOf);
  assert.deepEqual(names.slice(0, 2).toSorted(), ['a', 'b']);
  assert.deepEqual(names.slice(2).toSorted(), ['c', 'd']);
});

test('a dispatcher that is closed leaves them in the queue, for the next start', async () => {
  await using place = await outboxPlace();
  await using target = await receiver();
  const dispatcher = place.start();
  await dispatcher.close();
  await upload(place, dispatcher, target.url, 'a');
  assert.deepEqual(await states(place), ['queued']);
  await place.round(place.start());
  assert.deepEqual(target.requests.map(nameOf), ['a']);
});
