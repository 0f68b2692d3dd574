/** Receivers that answer late, without end or drop by drop: each attempt is bounded (docs/design.md, decision 9). */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AttemptsTable } from '../../src/foundation/db/schema.ts';
import { feltTime } from '../support/felt-time.ts';
import { receiver } from '../support/receiver.ts';
import { outboxPlace } from './outbox-place.ts';

interface Outcome {
  readonly state: string;
  readonly attempt: AttemptsTable | undefined;
  /** How long the receiver's connection lasted from the request on, in ms; at the latest it ends with the dispatcher. */
  readonly lasted: Promise<{ readonly ms: number; readonly felt: number }>;
  /** Bytes that the receiver could get rid of. */
  readonly sent: number;
}

/** One attempt at a receiver that behaves like `respond`; with `repeats`, up to four until one succeeds. */
async function attemptAt(respond: (response: ServerResponse) => void, { repeats = false } = {}): Promise<Outcome> {
  await using place = await outboxPlace(repeats ? {} : { retryDelays: [60, 60, 60] });
  let sent = 0;
  const closed = Promise.withResolvers<{ ms: number; felt: number }>();
  await using target = await receiver({
    respond(response, { at }) {
      const time = feltTime();
      response.req.socket.once('close', () => closed.resolve({ ms: performance.now() - at, felt: time.elapsed() }));
      response.socket?.once('close', () => (sent = response.socket?.bytesWritten ?? sent));
      response.on('close', () => (sent = Math.max(sent, response.req.socket.bytesWritten)));
      respond(response);
    },
  });
  const dispatcher = place.start();
  const id = await place.put(target.url);
  dispatcher.wake();
  const { state } = await place.until(id, 'delivered', repeats ? 'failed' : 'waiting');
  await dispatcher.close();
  return { state, attempt: (await place.attempts(id)).at(-1), lasted: closed.promise, sent };
}

/** Writes `chunk` every 50 ms until the connection is closed. */
async function drip(response: ServerResponse, chunk: string, write: (chunk: string) => void): Promise<void> {
  while (!response.destroyed && !response.req.socket.destroyed) {
    write(chunk);
    await sleep(50);
  }
}

async function isUnder(lasted: Outcome['lasted'], most: number): Promise<void> {
  const { felt } = await lasted;
  assert.ok(felt < most, `it took ${felt} ms, not counting the machine's stalls`);
}

void describe('a receiver', { concurrency: true }, () => {
  test('that does not answer has failed after 5 s', async () => {
    const { state, attempt, lasted } = await attemptAt(() => undefined);
    assert.equal(state, 'waiting');
    assert.equal(attempt?.status, null);
    assert.equal(attempt?.error, 'no answer within 5 s');
    assert.ok((attempt?.latency_us ?? 0) > 4_900_000, `it took ${attempt?.latency_us} µs`);
    await isUnder(lasted, 6500);
  });

  test('that answers after 3 s has succeeded', async () => {
    // The machine may take more than the two seconds that are left once, but not four times.
    const { state, attempt } = await attemptAt(
      (response) => void setTimeout(() => response.writeHead(200).end(), 3000),
      { repeats: true },
    );
    assert.equal(state, 'delivered');
    assert.ok((attempt?.latency_us ?? 0) > 2_900_000);
  });

  test('that answers after 6 s has failed, whatever it answers then', async () => {
    const { state, attempt } = await attemptAt(
      (response) => void setTimeout(() => response.writeHead(200).end(), 6000),
    );
    assert.equal(state, 'waiting');
    assert.equal(attempt?.status, null);
  });

  test('whose head comes drop by drop has failed after 5 s', async () => {
    const { state, attempt, lasted } = await attemptAt((response) => {
      const { socket } = response.req;
      socket.write('HTTP/1.1 200 OK\r\n');
      void drip(response, 'x-drip: 1\r\n', (chunk) => socket.write(chunk));
    });
    assert.equal(state, 'waiting');
    assert.equal(attempt?.error, 'no answer within 5 s');
    await isUnder(lasted, 6500);
  });

  test('whose informational answers never end has failed after 5 s', async () => {
    const { state, lasted } = await attemptAt((response) => {
      const { socket } = response.req;
      void drip(response, 'HTTP/1.1 102 Processing\r\n\r\n', (chunk) => socket.write(chunk));
    });
    assert.equal(state, 'waiting');
    await isUnder(lasted, 6500);
  });

  test('whose informational answers are a flood has failed at once', async () => {
    const { state, attempt, lasted } = await attemptAt((response) => {
      const { socket } = response.req;
      const more = (): void => {
        while (!socket.destroyed && socket.write('HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1000)));
      };
      socket.on('drain', more);
      more();
    });
    assert.equal(state, 'waiting');
    assert.deepEqual([attempt?.status, attempt?.error], [null, 'more than 64 KiB came before the status']);
    await isUnder(lasted, 2500);
  });

  test('that changes the protocol has failed at once, and its connection is not kept', async () => {
    const { state, attempt, lasted } = await attemptAt(
      (response) =>
        void response.req.socket.write(
          'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nx',
        ),
    );
    assert.equal(state, 'waiting');
    assert.deepEqual([attempt?.status, attempt?.error], [101, null]);
    await isUnder(lasted, 900);
  });

  test('whose body comes drop by drop is judged by its head and let go after 1 s', async () => {
    const { state, attempt, lasted } = await attemptAt((response) => {
      response.writeHead(200);
      void drip(response, 'drop', (chunk) => response.write(chunk));
    });
    assert.equal(state, 'delivered');
    assert.match(String(attempt?.response), /^(drop)+$/);
    assert.ok((await lasted).ms > 900);
    await isUnder(lasted, 2500);
  });

  test('with an endless body is cut off, and 1 KiB of it kept', async () => {
    const { state, attempt, lasted, sent } = await attemptAt((response) => {
      response.writeHead(500);
      const more = (): void => {
        while (!response.destroyed && response.write('x'.repeat(16_384)));
      };
      response.on('drain', more);
      more();
    });
    assert.equal(state, 'waiting');
    assert.equal(attempt?.status, 500);
    assert.deepEqual(attempt?.response, Buffer.alloc(1024, 'x'));
    await isUnder(lasted, 900);
    // What the kernel's buffers took is beyond berth's control.
    assert.ok(sent < 16 * 1024 * 1024, `${sent} bytes were sent`);
  });

  test('whose body is all framing is cut off as well: the bytes of the connection count, whatever they are called', async () => {
    const { state, attempt } = await attemptAt((response) => {
      const { socket } = response.req;
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
      const chunk = `1;${'x'.repeat(15_000)}\r\ny\r\n`;
      const more = (): void => {
        while (!socket.destroyed && socket.write(chunk));
      };
      socket.on('drain', more);
      more();
    });
    assert.equal(state, 'delivered');
    // One in 15 KB: with a read of 64 KiB more than is allowed, at most nine.
    assert.match(String(attempt?.response), /^y{0,15}$/);
  });

  test('that promises more than it sends is judged by its head', async () => {
    const { state, attempt } = await attemptAt((response) => {
      response.writeHead(200, { 'content-length': 1000 }).write('short');
      setTimeout(() => response.destroy(), 50);
    });
    assert.equal(state, 'delivered');
    assert.equal(attempt?.response?.toString(), 'short');
  });

  test('whose body claims to be compressed is not unpacked', async () => {
    const { state, attempt } = await attemptAt((response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end('no gzip'),
    );
    assert.equal(state, 'delivered');
    assert.equal(attempt?.response?.toString(), 'no gzip');
  });

  test('that speaks no HTTP has failed', async () => {
    const { state, attempt } = await attemptAt(
      (response) => void response.req.socket.end('220 mail.example.com ESMTP\r\n'),
    );
    assert.equal(state, 'waiting');
    assert.match(attempt?.error ?? '', /Parse Error/);
  });
});
