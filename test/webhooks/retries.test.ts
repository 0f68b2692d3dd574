/** Attempts and retries (specification, "Success, retries, duplicates"). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { retryAfter } from '../../src/deliveries/webhooks/retry-after.ts';
import { verify } from '../../src/deliveries/webhooks/signature.ts';
import { SECOND, systemClock } from '../../src/foundation/base/clock.ts';
import { presentTime } from '../../src/foundation/db/shared.ts';
import { movedClock } from '../support/moved-clock.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { outboxPlace, SECRET } from './outbox-place.ts';

test('a webhook arrives signed, with its headers, once', async () => {
  await using place = await outboxPlace();
  await using target = await receiver({ respond: (response) => response.writeHead(201).end('thanks') });
  const dispatcher = place.start();
  const id = await place.put(`${target.url}?a=1`);
  const before = Math.floor(Date.now() / 1000);
  dispatcher.wake();
  const { method, path, headers, body } = await target.next();
  const row = await place.until(id, 'delivered');

  assert.equal(method, 'POST');
  assert.equal(path, '/hook?a=1');
  assert.equal(headers['content-type'], 'application/json');
  assert.equal(headers['content-length'], String(body.length));
  assert.equal(headers['user-agent'], 'berth/1.2.3');
  assert.equal(headers['webhook-id'], id);
  const timestamp = Number(headers['webhook-timestamp']);
  assert.ok(timestamp >= before && timestamp <= Date.now() / 1000, `${timestamp} after ${before}`);
  assert.ok(verify(body, SECRET, String(headers['x-service-signature'])));
  assert.deepEqual(body, row.body);

  const [attempt, ...others] = await place.attempts(id);
  assert.deepEqual(others, []);
  assert.partialDeepStrictEqual(attempt, { number: 1, status: 201, error: null, response: Buffer.from('thanks') });
  assert.ok((attempt?.latency_us ?? 0) > 0 && (attempt?.finished_at ?? 0) >= (attempt?.started_at ?? Infinity));
  assert.equal(target.requests.length, 1);
});

test('a receiver that fails three times gets the same bytes four times and is then done', async () => {
  await using place = await outboxPlace();
  await using target = await receiver({
    respond: (response, _request, index) => response.writeHead([500, 404, 301][index] ?? 204).end(`answer ${index}`),
  });
  const dispatcher = place.start();
  const id = await place.put(target.url);
  dispatcher.wake();
  const row = await place.until(id, 'delivered', 'failed');

  assert.equal(row.state, 'delivered');
  assert.equal(row.attempts, 4);
  assert.equal(target.requests.length, 4);
  for (const { body, headers } of target.requests) {
    assert.deepEqual(body, row.body);
    assert.equal(headers['webhook-id'], id);
    assert.ok(verify(body, SECRET, String(headers['x-service-signature'])));
  }
  const attempts = await place.attempts(id);
  assert.deepEqual(
    attempts.map(({ status }) => status),
    [500, 404, 301, 204],
  );
});

test('after four failures there is no fifth, also not after a restart', async () => {
  await using place = await outboxPlace();
  await using target = await receiver({ respond: (response) => response.writeHead(503).end() });
  const dispatcher = place.start();
  const id = await place.put(target.url);
  dispatcher.wake();
  const row = await place.until(id, 'failed');
  await dispatcher.close();
  await place.round(place.start());
  assert.equal(row.attempts, 4);
  assert.equal(row.due_at, null);
  assert.equal(target.requests.length, 4);
});

test('the waits between attempts are set as configured, give or take a fifth', async () => {
  const delays = [60, 300, 3600] as const;
  await using place = await outboxPlace({ retryDelays: delays });
  await using target = await receiver({ respond: (response) => response.writeHead(500).end() });
  const dispatcher = place.start();
  const id = await place.put(target.url);
  dispatcher.wake();
  for (const [index, delay] of delays.entries()) {
    await until('the attempt has failed', async () => {
      const { state, attempts } = await place.delivery(id);
      return state === 'waiting' && attempts === index + 1;
    });
    const { due_at } = await place.delivery(id);
    const wait = ((due_at ?? 0) - ((await place.attempts(id))[index]?.finished_at ?? 0)) / SECOND;
    assert.ok(wait >= 0.8 * delay && wait <= 1.2 * delay, `wait ${index + 1} is ${wait} s`);
    await place.database.db.updateTable('deliveries').set({ due_at: place.clock.now() }).execute();
    dispatcher.wake();
  }
  await place.until(id, 'failed');
});

test('no attempt is made before its wait is over', async () => {
  await using place = await outboxPlace({ retryDelays: [0.1, 0.3, 0.6] });
  await using target = await receiver({ respond: (response) => response.writeHead(500).end() });
  const dispatcher = place.start();
  const id = await place.put(target.url);
  dispatcher.wake();
  await place.until(id, 'failed');
  const times = target.requests.map(({ at }) => at);
  const waits = times.slice(1).map((at, index) => at - (times[index] ?? 0));
  for (const [index, shortest] of [80, 240, 480].entries()) {
    const wait = waits[index] ?? 0;
    assert.ok(wait >= shortest - 5, `wait ${index + 1} was ${wait} ms`);
  }
});

test('a receiver that drops the connection counts as failed and is tried again', async () => {
  await using place = await outboxPlace();
  await using target = await receiver({
    respond: (response, _request, index) => {
      if (index === 0) response.socket?.destroy();
      else response.writeHead(204).end();
    },
  });
  const dispatcher = place.start();
  const id = await place.put(target.url);
  dispatcher.wake();
  await place.until(id, 'delivered');
  const [first, second] = await place.attempts(id);
  assert.equal(first?.status, null);
  assert.match(first?.error ?? '', /^the receiver closed the connection/);
  assert.equal(second?.status, 204);
  assert.equal(target.requests.length, 2);
});

test('a redirect is a failure, and its target gets no request', async () => {
  await using place = await outboxPlace({ retryDelays: [60, 60, 60] });
  await using target = await receiver();
  for (const status of [301, 302, 303, 307, 308]) {
    await using target302 = await receiver({
      respond: (response) => response.writeHead(status, { location: target.url }).end(),
    });
    const dispatcher = place.start();
    const id = await place.put(target302.url);
    dispatcher.wake();
    await place.until(id, 'waiting');
    assert.equal((await place.attempts(id))[0]?.status, status);
  }
  assert.equal(target.connections(), 0);
});

test('credentials in the URL are sent as basic authentication', async () => {
  await using place = await outboxPlace();
  await using target = await receiver();
  const dispatcher = place.start();
  await place.put(target.url.replace('//', '//us%40er:pass@'));
  dispatcher.wake();
  const { headers } = await target.next();
  assert.equal(headers.authorization, `Basic ${btoa('us@er:pass')}`);
});

test('a text that is not a URL fails with a reason, and so does a refused connection', async () => {
  await using place = await outboxPlace();
  await using closed = await receiver();
  const { url } = closed;
  await closed[Symbol.asyncDispose]();
  const dispatcher = place.start();
  const [bad, refused] = [await place.put('http://'), await place.put(url)];
  const undecodable = await place.put(url.replace('//', '//%ff:secret@'));
  dispatcher.wake();
  await place.until(bad, 'failed');
  await place.until(refused, 'failed');
  assert.equal((await place.attempts(bad))[0]?.error, 'the URL is not valid');
  await place.until(undecodable, 'failed');
  assert.equal((await place.attempts(undecodable))[0]?.error, 'URI malformed');
  assert.match((await place.attempts(refused))[3]?.error ?? '', /ECONNREFUSED/);
});

// A receiver that is busy says when to ask again: the next attempt waits for it, up to an hour.

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

// The wall clock is set by an hour, forth and back: retries come neither early nor an hour late.

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
