/** Receivers with several addresses, some of which do not answer: each address gets its part of the five seconds. */
import { spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { guardedAgents, type ResolveName, resolver } from '../../src/deliveries/webhooks/destination-guard.ts';
import { createSender } from '../../src/deliveries/webhooks/send.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/poll.ts';

import assert from 'node:assert/strict';

/**
 * Listens at an address, with a full queue of connections, so that the kernel drops every further SYN. When it is told to, it takes
 * them all and answers: a handshake that began before ends when the client sends its SYN again, after 1 s.
 */
const DEAF = `
import socket, sys, threading, time
host, port = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if ':' in host else socket.AF_INET
server = socket.socket(family)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind((host, port))
server.listen(0)
filling = []
for _ in range(4):
    client = socket.socket(family)
    client.setblocking(False)
    client.connect_ex((host, port))
    filling.append(client)
time.sleep(0.1)
print('full', flush=True)
sys.stdin.readline()
def answer(client):
    if client.recv(65536): client.sendall(b'HTTP/1.1 204 No Content\\r\\n\\r\\n')
while True: threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()
`;

async function deaf(host: string, port: number): Promise<AsyncDisposable & { readonly listen: () => void }> {
  const child = spawn('python3', ['-c', DEAF, host, String(port)], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return {
    listen: () => void child.stdin.write('\n'),
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await once(child, 'close');
    },
  };
}

/** How many handshakes with that port of 127.0.0.1 are under way (proc_net_tcp(5): SYN_SENT is 02). */
function handshakes(port: number): number {
  const remote = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')} 02 `;
  return readFileSync('/proc/net/tcp', 'utf8').split(remote).length - 1;
}

const OUTGOING = {
  id: 'delivery-1',
  body: Buffer.from('{}'),
  webhook_secret: 'secret',
  next_webhook_secret: null,
  upload_id: null,
};

async function sendTo(port: number, resolve: ResolveName) {
  const sender = createSender(guardedAgents(['127.0.0.0/8', '::1/128'], resolve), '1');
  const url = `http://both.test:${port}/`;
  const answer = await sender.send({ ...OUTGOING, url }, 0, new AbortController().signal);
  sender.close();
  return answer;
}

for (const addresses of [
  ['127.0.0.1', '::1'],
  ['::1', '127.0.0.1'],
]) {
  test(`an address with a slow handshake is reached beside one that drops everything: ${addresses.join(', ')}`, async () => {
    const port = await freePort();
    await using slow = await deaf('127.0.0.1', port);
    await using _dead = await deaf('::1', port);
    const before = handshakes(port);
    const sending = sendTo(port, async () => addresses);
    await until('its handshake has begun', () => handshakes(port) > before);
    slow.listen();
    const { status, error } = await sending;
    assert.deepEqual([status, error], [204, null]);
  });
}

test('a DNS server that never answers the question for IPv6 addresses delays nothing', async (t) => {
  const socket = createSocket('udp4');
  t.after(() => void socket.close());
  let unanswered = 0;
  socket.on('message', (query, peer) => {
    // RFC 1035, 4.1: a header of 12 bytes, then the name, type and class asked for.
    const question = query.subarray(12, query.indexOf(0, 12) + 5);
    if (question.readUInt16BE(question.length - 4) !== 1) return void (unanswered += 1);
    const header = Buffer.concat([query.subarray(0, 2), Buffer.from([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0])]);
    const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]);
    socket.send(Buffer.concat([header, question, record]), peer.port, peer.address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const resolve = resolver({ hostsFile: '/dev/null', servers: [`127.0.0.1:${socket.address().port}`] });
  assert.deepEqual(await resolve('half.test'), ['127.0.0.1']);
  assert.equal(unanswered, 1, 'it does not wait until it would ask again, after 1500 ms');
});
