/** Connections to receivers are few, so that neither side opens a new one for each webhook of a burst. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { guardedAgents } from '../../src/deliveries/webhooks/destination-guard.ts';
import { createSender } from '../../src/deliveries/webhooks/send.ts';

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
