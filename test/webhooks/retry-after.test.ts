/** A receiver that is busy says when to ask again: the next attempt waits for it, up to an hour. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SECOND, systemClock } from '../../src/foundation/base/clock.ts';
import { retryAfter } from '../../src/deliveries/webhooks/retry-after.ts';
import { receiver } from '../support/receiver.ts';
import { outboxPlace } from './outbox-place.ts';

const NOW = Date.parse('2026-11-22T10:00:00Z') * 1000;
const HOUR = 3600 * SECOND;

/** The wait after the first attempt, in s, of a receiver that answers so. */
async function waitAfter(status: number, header: () => string): Promise<number> {
  await using place = await outboxPlace({ retryDelays: [10, 10, 10] });
  await using target = await receiver({
    respond: (response) => response.writeHead(status, { 'retry-after': header() }).end(),
  });
  const dispatcher = place.start();
  const id = await place.put(target.url);
  dispatcher.wake();
  const { due_at } = await place.until(id, 'waiting');
  return ((due_at ?? 0) - ((await place.attempts(id))[0]?.finished_at ?? 0)) / SECOND;
}

test('seconds and each form of an HTTP date; anything else counts as nothing', () => {
  for (const [header, seconds] of [
    ['0', 0],
    ['120', 120],
    [' 120 ', 120],
    ['3601', 3600],
    ['9'.repeat(400), 3600],
    ['Sun, 22 Nov 2026 10:05:00 GMT', 300],
    ['Sunday, 22-Nov-26 10:05:00 GMT', 300],
    ['Sun Nov 22 10:05:00 2026', 300],
    ['Sun, 22 Nov 2026 09:00:00 GMT', 0],
    ['Sun, 22 Nov 2027 10:00:00 GMT', 3600],
  ] as const) {
    assert.equal(retryAfter(503, header, NOW), seconds * SECOND, header);
    assert.equal(retryAfter(429, header, NOW), seconds * SECOND, header);
  }
  for (const wrong of ['', '-5', '1.5', '1e3', 'soon', 'Sunday', 'Sun, 99 Nov 2026 10:05:00 GMT', '2026-11-22']) {
    assert.equal(retryAfter(503, wrong, NOW), 0, wrong);
  }
  assert.equal(retryAfter(503, undefined, NOW), 0);
  for (const status of [500, 200, 301, 404]) assert.equal(retryAfter(status, '120', NOW), 0);
});

test('the wait is as long as a busy receiver asks for, and never longer than an hour', async () => {
  const [seconds, date, endless] = await Promise.all([
    waitAfter(429, () => '120'),
    waitAfter(503, () => new Date(Date.now() + 300_000).toUTCString()),
    waitAfter(503, () => '86400'),
  ]);
  assert.ok(seconds >= 119 && seconds <= 145, `${seconds} s`);
  assert.ok(date >= 290 && date <= 361, `${date} s`);
  assert.ok(endless > 3590 && endless <= 3600, `${endless} s`);
});

test('one that asks for less, or with another status, is asked again after berth’s own wait', async () => {
  for (const wait of await Promise.all([
    waitAfter(503, () => '1'),
    waitAfter(500, () => '120'),
    waitAfter(503, () => 'soon'),
  ])) {
    assert.ok(wait >= 8 && wait <= 12, `${wait} s`);
  }
});

test('there are still four attempts', async () => {
  await using place = await outboxPlace();
  await using target = await receiver({ respond: (response) => response.writeHead(429, { 'retry-after': '0' }).end() });
  const dispatcher = place.start();
  const id = await place.put(target.url);
  dispatcher.wake();
  assert.equal((await place.until(id, 'failed')).attempts, 4);
  assert.equal(target.requests.length, 4);
});

test('a start keeps a wait that a receiver requested, and shortens one that the clock caused', async () => {
  const clock = systemClock();
  await using place = await outboxPlace({ clock, retryDelays: [10, 10, 10] });
  const { db } = place.database;
  const url = 'http://127.0.0.1:9/';
  const waiting = async (attemptEnded: number, due_at: number): Promise<string> => {
    const id = await place.put(url);
    await db.updateTable('deliveries').set({ state: 'waiting', attempts: 1, due_at }).where('id', '=', id).execute();
    const started_at = attemptEnded - SECOND;
    await db
      .insertInto('attempts')
      .values({ delivery_id: id, number: 1, started_at, finished_at: attemptEnded, status: 503 })
      .execute();
    return id;
  };
  const now = clock.now();
  const asked = await waiting(now - 60 * SECOND, now + HOUR / 2);
  // The clock stood an hour further on when these were written.
  const ahead = await waiting(now + HOUR, now + HOUR + 10 * SECOND);
  const tooLong = await waiting(now - 60 * SECOND, now + 2 * HOUR);
  const dispatcher = place.start();
  await place.until(await place.put(url), 'waiting');
  await dispatcher.close();
  assert.equal((await place.delivery(asked)).due_at, now + HOUR / 2);
  for (const id of [ahead, tooLong]) {
    const { due_at } = await place.delivery(id);
    assert.ok((due_at ?? Infinity) < clock.now() + 60 * SECOND, 'it is due before long');
  }
});
