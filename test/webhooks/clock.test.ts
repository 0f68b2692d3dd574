/** The wall clock is set by an hour, forth and back: retries come neither early nor an hour late. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SECOND } from '../../src/foundation/base/clock.ts';
import { presentTime } from '../../src/foundation/db/shared.ts';
import { movedClock } from '../support/moved-clock.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { outboxPlace } from './outbox-place.ts';

const HOUR = 3600 * SECOND;

for (const [way, offset] of [
  ['forth', HOUR],
  ['back', -HOUR],
] as const) {
  test(`set an hour ${way}, a retry keeps its wait`, async () => {
    const clock = movedClock();
    await using place = await outboxPlace({ clock, retryDelays: [1, 60, 60] });
    await using target = await receiver({ respond: (response) => response.writeHead(500).end() });
    const dispatcher = place.start();
    const id = await place.put(target.url);
    dispatcher.wake();
    await place.until(id, 'waiting');
    clock.offset = offset;
    // Wakes go on meanwhile, as uploads do.
    const waking = setInterval(() => dispatcher.wake(), 50);
    const first = await target.next();
    const second = await target.next();
    assert.ok(second.at - first.at >= 800, `the retry came early, after ${second.at - first.at} ms`);
    const { due_at } = await place.until(id, 'waiting');
    await place.round(dispatcher);
    clearInterval(waking);
    assert.equal(target.requests.length, 2, 'more than one retry came');
    const now = await presentTime(place.database.reads, clock);
    assert.ok(Math.abs((due_at ?? 0) - now) < HOUR / 2, 'the next wait is by the clock as it was set');
  });
}

test('set back while berth was down, a retry waits no longer than the longest wait', async () => {
  const clock = movedClock();
  await using place = await outboxPlace({ clock, retryDelays: [0.1, 0.1, 0.5] });
  await using target = await receiver();
  const id = await place.put(target.url);
  await place.database.db
    .updateTable('deliveries')
    .set({ state: 'waiting', attempts: 1, due_at: clock.now() + HOUR })
    .execute();
  const dispatcher = place.start();
  dispatcher.wake();
  await until(
    'it is due before long',
    async () => ((await place.delivery(id)).due_at ?? 0) < clock.now() + 25 * SECOND,
  );
});
