/**
 * Receivers whose connections or answers are out of the ordinary: kept connections that they close, and answers that
 * Node's parser refuses. They are plain sockets, since no HTTP server behaves like this on demand.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import { Worker } from 'node:worker_threads';
import { guardedAgents } from '../../src/deliveries/webhooks/destination-guard.ts';
import { type Answer, createSender } from '../../src/deliveries/webhooks/send.ts';
import { trustedWith } from '../../src/deliveries/webhooks/start.ts';
import { loadTlsPair } from '../../src/interfaces/http/certificate.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { scratch } from '../support/scratch.ts';

import assert from 'node:assert/strict';

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

/** What a receiver does with each request of a connection. The numbers count from 0. */
type React = (socket: Socket, connection: number, request: number) => void;

interface Place extends AsyncDisposable {
  send(): Promise<Answer>;
  /** The `webhook-id` and signature of each request, by connection. */
  readonly requests: string[][];
}

async function place(react: React, { isTls = false } = {}): Promise<Place> {
  await using stack = new AsyncDisposableStack();
  const { tls } = stack.use(scratch()).config;
  const pair = await loadTlsPair(tls);
  const requests: string[][] = [];
  const sockets = new Set<Socket>();
  const onConnection = (socket: Socket): void => {
    sockets.add(socket);
    const connection = requests.push([]) - 1;
    let text = '';
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      if (!text.endsWith('{}')) return;
      const [, id] = /^webhook-id: (.*)\r\n/im.exec(text) ?? [];
      const [, signature] = /^webhook-signature: (.*)\r\n/im.exec(text) ?? [];
      text = '';
      react(socket, connection, (requests[connection]?.push(`${id} ${signature}`) ?? 0) - 1);
    });
  };
  const server = isTls ? createTlsServer(pair, onConnection) : createServer(onConnection);
  stack.defer(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sender = createSender(
    guardedAgents(['127.0.0.0/8'], undefined, trustedWith(tls.cert, createLog('silent'))),
    '1',
  );
  stack.defer(() => sender.close());
  const url = `${isTls ? 'https' : 'http'}://127.0.0.1:${port}/`;
  const secrets = { webhook_secret: 'secret', next_webhook_secret: null, upload_id: null };
  let sent = 0;
  const cleanUp = stack.move();
  return {
    requests,
    send() {
      const delivery = { id: `delivery-${(sent += 1)}`, url, body: Buffer.from('{}'), ...secrets };
      return sender.send(delivery, 1_795_212_999_000_000, new AbortController().signal);
    },
    [Symbol.asyncDispose]: () => cleanUp.disposeAsync(),
  };
}

/** Two webhooks for a receiver that answers the first on a connection that it keeps. */
async function two(receiver: Place): Promise<Answer> {
  const first = await receiver.send();
  assert.deepEqual([first.status, first.response?.toString()], [200, 'ok']);
  // The connection is free once the event loop has seen the end of the answer.
  await sleep(10);
  return receiver.send();
}

function reset(socket: Socket): void {
  // A TLS socket has no reset of its own.
  if ('encrypted' in socket) socket.destroy();
  else socket.resetAndDestroy();
}

void describe('a kept connection', { concurrency: true }, () => {
  for (const isTls of [false, true]) {
    const over = isTls ? 'over TLS' : 'in the clear';
    test(`that ends before its answer costs no attempt, ${over}`, async () => {
      await using receiver = await place(
        (socket, _, request) => (request === 0 ? void socket.write(OK) : reset(socket)),
        { isTls },
      );
      const answer = await two(receiver);
      assert.deepEqual([answer.status, answer.error], [200, null]);
      const [one, again] = receiver.requests;
      assert.equal(one?.length, 2);
      assert.deepEqual(again, [one?.[1]], 'the same webhook, with the same signature');
    });
  }

  test('that the receiver closes without a reset costs no attempt either', async () => {
    await using receiver = await place((socket, _, request) => void (request === 0 ? socket.write(OK) : socket.end()));
    assert.equal((await two(receiver)).status, 200);
  });

  test('that ends after a byte of its answer is a failed attempt', async () => {
    await using receiver = await place(
      (socket, _, request) => void (request === 0 ? socket.write(OK) : socket.end('H')),
    );
    const { status, error } = await two(receiver);
    assert.equal(status, null);
    assert.match(error ?? '', /^the receiver closed the connection before it had answered\. If its port is for HTTPS/);
    assert.equal(receiver.requests.length, 1);
  });

  test('leaves the new one what is left of the 5 s', async () => {
    await using receiver = await place((socket, connection, request) => {
      if (connection > 0) return;
      if (request === 0) socket.write(OK);
      else setTimeout(() => reset(socket), 3000);
    });
    const { ok, error, latency } = await two(receiver);
    assert.deepEqual([ok, error], [false, 'no answer within 5 s']);
    // With 5 s of its own, the new connection would take 8.
    assert.ok(latency < 8_000_000, `it took ${latency} µs`);
    assert.deepEqual(
      receiver.requests.map(({ length }) => length),
      [2, 1],
    );
  });
});

test('a new connection that ends without an answer is a failed attempt', async () => {
  await using receiver = await place(reset);
  const { status, error } = await receiver.send();
  assert.equal(status, null);
  assert.match(error ?? '', /^the receiver closed the connection before it had answered/);
  assert.equal(receiver.requests.length, 1);
});

const ODD: Readonly<Record<string, string>> = {
  'a length together with chunks': 'Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'the coding identity': 'Transfer-Encoding: identity\r\n\r\nok',
  'two lengths': 'Content-Length: 2\r\nContent-Length: 3\r\n\r\nok',
  'a control character in a header': 'X-Note: a\u0001b\r\nContent-Length: 2\r\n\r\nok',
  'a folded header': 'X-Note: a\r\n  b\r\nContent-Length: 2\r\n\r\nok',
  'a header without a colon': 'nothing\r\nContent-Length: 2\r\n\r\nok',
  'headers of 20 KiB': `X-Note: ${'a'.repeat(20_480)}\r\nContent-Length: 2\r\n\r\nok`,
  'NUL after the status line': '\0\0\0\0\r\n\r\n',
};

void describe('the status line decides about an answer with', { concurrency: true }, () => {
  for (const [what, after] of Object.entries(ODD)) {
    test(what, async () => {
      await using receiver = await place((socket, connection) => {
        if (connection === 0) socket.write(`HTTP/1.1 200 OK\r\n${after}`);
        else socket.write(`HTTP/1.1 503 Service Unavailable\r\n${after}`);
      });
      const { ok, status, error } = await receiver.send();
      assert.deepEqual([ok, status, error], [true, 200, null]);
      await sleep(10);
      const refused = await receiver.send();
      assert.deepEqual([refused.ok, refused.status, refused.error], [false, 503, null]);
      assert.equal(receiver.requests.length, 2, 'its connection is not used again');
    });
  }

  test('a status line in pieces, after an informational answer', async () => {
    await using receiver = await place((socket) => {
      const pieces = ['HTTP/1.1 103 Early Hints\r\nLink: a\r\n', '\r\nHTTP/1.1 20', '2 Accepted\r\nX: a\u0001\r\n\r\n'];
      void (async () => {
        for (const piece of pieces) {
          socket.write(piece);
          await sleep(20);
        }
      })();
    });
    const { ok, status } = await receiver.send();
    assert.deepEqual([ok, status], [true, 202]);
  });

  test('no status that berth could have meant', async () => {
    for (const line of ['HTTP/1.1 2000 OK', 'HTTP/1.1 20', 'HTTP/1.1 abc', 'SMTP 200 OK', 'HTTP/1.1 100 Continue']) {
      await using receiver = await place((socket) => void socket.end(`${line}\r\nX: a\u0001\r\n\r\n`));
      const { ok, status, error } = await receiver.send();
      assert.deepEqual([ok, status], [false, null], line);
      assert.match(error ?? '', /Parse Error/, line);
    }
  });
});

// Connections to receivers are few, so that neither side opens a new one for each webhook of a burst.

/** Answers at once, and says its port first and the number of its connections at the end. */
const RECEIVER = `
  const { parentPort } = require('node:worker_threads');
  const server = require('node:http').createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(204).end());
  });
  let connections = 0;
  server.on('connection', () => connections++);
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
  parentPort.once('message', () => {
    parentPort.postMessage(connections);
    parentPort.close();
    server.closeAllConnections();
    server.close();
  });
`;

/** How long each turn of the event loop takes at least, in ms: as if berth had much else to do. */
const TURN = 15;

test('webhooks that follow each other while berth is busy use one connection', async () => {
  // A thread of its own, which is not held up.
  const receiver = new Worker(RECEIVER, { eval: true });
  const [port] = (await once(receiver, 'message')) as [number];
  const sender = createSender(guardedAgents(['127.0.0.0/8']), '1');
  const outgoing = {
    id: 'delivery-1',
    body: Buffer.from('{}'),
    webhook_secret: 'secret',
    next_webhook_secret: null,
    upload_id: null,
  };
  const url = `http://127.0.0.1:${port}/`;
  let isBusy = true;
  const work = (): void => {
    for (const began = performance.now(); performance.now() - began < TURN;);
    if (isBusy) setImmediate(work);
  };
  setImmediate(work);
  for (let i = 0; i < 20; i += 1) {
    // As it is sent after a commit; the answer is there when berth looks at its sockets next.
    await nextTurn();
    const { status } = await sender.send({ ...outgoing, url }, 0, new AbortController().signal);
    assert.equal(status, 204);
  }
  isBusy = false;
  receiver.postMessage('end');
  assert.deepEqual(await once(receiver, 'message'), [1]);
  sender.close();
});
