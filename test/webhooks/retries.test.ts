/** Attempts and retries (specification, "Success, retries, duplicates"). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SECOND } from '../../src/foundation/base/clock.ts';
import { verify } from '../../src/deliveries/webhooks/signature.ts';
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
  assert.match(first?.error ?? '', /hang up|ECONNRESET|aborted/);
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
