/** 200 dead receivers with 10,000 webhooks queued: a healthy one does not feel them. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { enqueue } from '../../src/webhooks/outbox.ts';
import { receiver } from '../support/receiver.ts';
import { directory, outboxPlace } from './outbox-place.ts';

const DEAD = 200;
const QUEUED_EACH = 50;

test('webhooks for a healthy receiver pass 10,000 for dead ones', async () => {
  await using place = await outboxPlace({ retryDelays: [10, 60, 300] });
  await using healthy = await receiver();
  await using hole = await blackHole();
  const now = place.clock.now();
  const events = Array.from({ length: DEAD * QUEUED_EACH }, (_, index) => {
    const host = index % DEAD;
    // A third refuses connections; the others take requests and never answer.
    const port = host % 3 === 0 ? 1 : hole.port;
    const url = `http://127.0.1.${host + 1}:${port}/`;
    return { directory: directory(url), filename: `${index}`, sizeBytes: 1, uploadedAt: now, now };
  });
  await place.database.db.transaction().execute((tx) => enqueue(tx, ...events));
  const dispatcher = place.start();
  dispatcher.wake();
  // Until the dead ones have all the slots that they can get.
  while (hole.connections() < 200) await once(hole.events, 'connection');

  const event = { directory: directory(healthy.url), filename: 'x', sizeBytes: 1, uploadedAt: now, now };
  const waits: number[] = [];
  for (let count = 0; count < 100; count += 1) {
    await place.database.db.transaction().execute((tx) => enqueue(tx, event));
    const committed = performance.now();
    dispatcher.wake();
    waits.push((await healthy.next()).at - committed);
  }
  waits.sort((a, b) => a - b);
  // Alone it takes about 2 ms; a slot of a dead receiver would be free after 5,000.
  assert.ok((waits[50] ?? Infinity) < 100, `the median was ${waits[50]} ms`);
  assert.ok((waits[99] ?? Infinity) < 1000, `the longest was ${waits[99]} ms`);
  assert.ok(hole.connections() < 1000);
  if (process.env['BERTH_TEST_FIGURES']) console.log(waits[0], waits[50], waits[95], waits[99]);
});

/** Takes connections on all of 127/8 and never says a word. */
async function blackHole(): Promise<
  AsyncDisposable & { readonly port: number; readonly events: NodeJS.EventEmitter; connections(): number }
> {
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
  });
  server.listen(0, '0.0.0.0');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    events: server,
    connections: () => connections,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
