/** Which connection is closed when there are too many: one that waits for its client, never one at work. */
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Server, Socket } from 'node:net';
import { test } from 'node:test';
import { fc } from '../../support/fast-check.ts';
import { connectionLimits, Connections } from '../../../src/interfaces/http/connections.ts';

class Client extends EventEmitter {
  readonly remoteAddress: string;
  readonly remotePort: number;
  readonly bytesRead = 0;
  isOpen = true;

  constructor(remoteAddress: string, remotePort: number) {
    super();
    this.remoteAddress = remoteAddress;
    this.remotePort = remotePort;
  }

  destroy(): void {
    this.isOpen = false;
    queueMicrotask(() => this.emit('close'));
  }

  /** A request, whole or not. */
  request(connections: Connections, { complete, isKnown }: { complete: boolean; isKnown: boolean }): EventEmitter {
    const request = { socket: this as unknown as Socket, complete } as IncomingMessage;
    const response = new EventEmitter();
    connections.begins(request, response as ServerResponse);
    if (isKnown) connections.authenticated(request);
    return response;
  }
}

function place(total: number, ofAddress: number) {
  const server = new EventEmitter();
  const isProxy = (address?: string): boolean => address === '192.0.2.1';
  const connections = new Connections({ limits: { total, ofAddress }, isProxy });
  connections.watch(server as unknown as Server);
  let port = 0;
  const connect = (address: string): Client => {
    port += 1;
    const client = new Client(address, port);
    server.emit('connection', client);
    return client;
  };
  return { connections, connect };
}

test('at the limit the oldest connection without a key that waits for its client is closed', () => {
  const { connections, connect } = place(4, 4);
  const [known, working, held, idle] = ['1', '2', '3', '4'].map((part) => connect(`198.51.100.${part}`));
  assert.ok(known && working && held && idle);
  known.request(connections, { complete: true, isKnown: true }).emit('close');
  working.request(connections, { complete: true, isKnown: false });
  held.request(connections, { complete: false, isKnown: false });
  const next = connect('198.51.100.5');
  assert.deepEqual(
    [known, working, held, idle, next].map(({ isOpen }) => isOpen),
    [true, true, false, true, true],
  );
  const more = connect('198.51.100.6');
  assert.deepEqual([idle.isOpen, more.isOpen], [false, true]);
  for (const client of [next, more]) client.request(connections, { complete: true, isKnown: true });
  connect('198.51.100.7');
  assert.equal(known.isOpen, false, 'an idle one with a key is the last resort');
});

test('a body that comes with a valid key is never cut off', () => {
  const { connections, connect } = place(1, 1);
  const put = connect('198.51.100.1');
  put.request(connections, { complete: false, isKnown: true });
  assert.equal(connect('198.51.100.2').isOpen, false);
  assert.equal(put.isOpen, true);
});

test('an address has its share, all of a /64 has one, and a proxy has them all', () => {
  const { connect } = place(20, 3);
  const others = ['203.0.113.1', '203.0.113.2'].map(connect);
  for (const address of [() => '198.51.100.1', (i: number) => `2001:db8::${i}`]) {
    const clients = Array.from({ length: 9 }, (_, i) => connect(address(i)));
    assert.equal(clients.filter(({ isOpen }) => isOpen).length, 3);
    assert.deepEqual(
      clients.slice(-3).map(({ isOpen }) => isOpen),
      [true, true, true],
      'the newest',
    );
  }
  const proxied = Array.from({ length: 12 }, () => connect('192.0.2.1'));
  assert.ok(proxied.every(({ isOpen }) => isOpen));
  assert.ok(others.every(({ isOpen }) => isOpen));
});

test('however connections come and go, there are never too many, and none that works with a key is closed', async () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('connect' as const), address: fc.nat(5) }),
    fc.record({ kind: fc.constant('close' as const), which: fc.nat(30) }),
    fc.record({ kind: fc.constant('ask' as const), which: fc.nat(30), complete: fc.boolean(), isKnown: fc.boolean() }),
    fc.record({ kind: fc.constant('answer' as const), which: fc.nat(30) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
      const { connections, connect } = place(8, 3);
      const clients: Client[] = [];
      const working = new Map<Client, EventEmitter>();
      for (const one of steps) {
        if (one.kind === 'connect') clients.push(connect(`198.51.100.${one.address}`));
        const open = clients.filter(({ isOpen }) => isOpen);
        const client = 'which' in one ? open[one.which % open.length] : undefined;
        if (client && one.kind === 'close' && !working.has(client)) client.destroy();
        if (client && one.kind === 'ask') {
          const response = client.request(connections, one);
          if (one.isKnown) working.set(client, response);
        }
        if (client && one.kind === 'answer') {
          working.get(client)?.emit('close');
          working.delete(client);
        }
        await Promise.resolve();
        const now = clients.filter(({ isOpen }) => isOpen);
        assert.ok(now.length <= 8);
        for (const group of Map.groupBy(now, ({ remoteAddress }) => remoteAddress).values())
          assert.ok(group.length <= 3);
        for (const each of working.keys()) assert.ok(each.isOpen);
      }
    }),
  );
});

test('the limits fit half of the descriptors and an eighth of the memory, and servers share them', () => {
  const { total, ofAddress } = connectionLimits();
  assert.ok(total >= 100 && total <= 4096, String(total));
  assert.equal(ofAddress, Math.floor(total / 4));
  assert.ok(connectionLimits(2).total <= total / 2);
});
