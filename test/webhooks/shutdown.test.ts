/** Closing the dispatcher: nothing is lost, nothing stays behind. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { outboxPlace } from './outbox-place.ts';

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
