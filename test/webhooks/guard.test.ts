/** The destination guard (docs/design.md, 9): no forbidden address is ever connected to, however it is written or found. */
import { execFile, spawnSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { OperatorError } from '../../src/foundation/base/errors.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { addressRule } from '../../src/deliveries/webhooks/address-rule.ts';
import { guardedAgents, type ResolveName, resolver } from '../../src/deliveries/webhooks/destination-guard.ts';
import { type Answer, createSender } from '../../src/deliveries/webhooks/send.ts';
import { receiver } from '../support/receiver.ts';
import { scratch } from '../support/scratch.ts';

import assert from 'node:assert/strict';

const OUTGOING = {
  id: 'delivery-1',
  body: Buffer.from('{}'),
  webhook_secret: 'secret',
  next_webhook_secret: null,
  upload_id: null,
};

interface Setting {
  readonly allow?: readonly string[];
  readonly resolve?: ResolveName;
}

/** One attempt at each of the URLs, all over the same agents. */
async function sendTo(urls: readonly string[], { allow = [], resolve }: Setting = {}): Promise<Answer[]> {
  const sender = createSender(guardedAgents(allow, resolve), '1');
  const answers: Answer[] = [];
  for (const url of urls) answers.push(await sender.send({ ...OUTGOING, url }, 0, new AbortController().signal));
  sender.close();
  return answers;
}

/** The first and last address of each class, and forms that carry IPv4 inside. */
const BLOCKED = `
  0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.1 127.255.255.255
  169.254.0.0 169.254.169.254 169.254.255.255 172.16.0.0 172.31.255.255 192.0.0.0 192.0.0.255 192.0.2.1
  192.88.99.1 192.168.0.0 192.168.255.255 198.18.0.0 198.19.255.255 198.51.100.1 203.0.113.1
  224.0.0.1 239.255.255.255 240.0.0.0 255.255.255.255
  :: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::7f00:1 100::1
  2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1 2001:db8::1 2002:7f00:1::1 3ffe::1 3fff::1
  5f00::1 fc00::1 fd12:3456::1 fe80::1 fe80::1%lo febf::1 fec0::1 ff02::1 4000::1`;
const PUBLIC = `
  1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 192.0.3.1
  192.167.255.255 198.17.255.255 198.20.0.0 223.255.255.255
  2606:4700::1111 2a00:1450:4001:800::200e 2001:4860:4860::8888`;
const noAddress = (name: string): string => `the name ${name} has no address that webhooks may go to`;
const words = (text: string): string[] => text.trim().split(/\s+/);

test('addresses that are not public are refused, public ones are not', () => {
  const allowed = addressRule([]);
  assert.deepEqual(words(BLOCKED).filter(allowed), []);
  assert.deepEqual(
    words(PUBLIC).filter((address) => !allowed(address)),
    [],
  );
  assert.ok(!allowed('') && !allowed('localhost') && !allowed('127.1'));
});

test('addresses are opened one network at a time', () => {
  const allowed = addressRule(['10.1.0.0/16', 'fd00::/8']);
  assert.ok(allowed('10.1.2.3') && allowed('fd12::1') && allowed('1.1.1.1'));
  assert.ok(!allowed('10.2.0.0') && !allowed('fc00::1') && !allowed('127.0.0.1'));
  assert.ok(!addressRule(['0.0.0.0/0'])('::1'));
});

test('an invalid network is an error for the operator', () => {
  for (const wrong of ['10.0.0.0/33', '300.0.0.0/8', 'fd00::/129', '1.2.3/8', '::1']) {
    assert.throws(() => addressRule([wrong]), OperatorError, wrong);
  }
});

test('a literal is refused in every spelling, with no connection', async () => {
  await using target = await receiver();
  const { port } = new URL(target.url);
  const hosts = words(`
    127.0.0.1 127.1 0x7f.1 2130706433 017700000001 0x7f000001 127.0.0.1. 0 0.0.0.0 １２７.0.0.1 127。0。0。1
    [::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1] [0:0:0:0:0:ffff:7f00:0001] user:pass@127.0.0.1`);
  const urls = hosts.flatMap((host) => [`http://${host}:${port}/`, `https://${host}:${port}/`]);
  for (const [index, { error, status }] of (await sendTo(urls)).entries()) {
    assert.equal(status, null);
    assert.match(error ?? '', /^destination (0\.0\.0\.0|127\.0\.0\.1|::\S*) is not allowed$/, urls[index]);
  }
  assert.equal(target.connections(), 0);
});

test('allowed addresses are reached, by literal and by a name of the hosts file', async () => {
  using place = scratch();
  await using target = await receiver();
  const { port } = new URL(target.url);
  const hostsFile = `${place.dir}/hosts`;
  writeFileSync(hostsFile, '# hosts\n127.0.0.1 localhost Receiver.test # here\n::1 ip6-localhost\n');
  const [literal, named] = await sendTo([target.url, `http://receiver.TEST:${port}/`], {
    allow: ['127.0.0.0/8'],
    resolve: resolver({ hostsFile, servers: ['127.0.0.1:9'] }),
  });
  assert.equal(literal?.status, 204);
  assert.equal(named?.status, 204);
  // Without being opened, the very same name is refused.
  const [refused] = await sendTo([`http://localhost:${port}/`], { resolve: resolver({ hostsFile }) });
  assert.equal(refused?.error, noAddress('localhost'));
  assert.equal(target.requests.length, 2);
});

test('localhost is this machine without a hosts file, too, and no server is asked for it', async () => {
  await using target = await receiver();
  await using dns = await dnsServer(() => '192.0.2.1');
  const resolve = resolver({ hostsFile: '/nowhere', servers: [dns.address] });
  const url = `http://localhost:${new URL(target.url).port}/`;
  const [allowed] = await sendTo([url], { allow: ['127.0.0.0/8'], resolve });
  assert.equal(allowed?.status, 204);
  const [refused] = await sendTo([url], { resolve });
  assert.equal(refused?.error, noAddress('localhost'));
});

test('a name is refused when any of its addresses is forbidden', async () => {
  await using target = await receiver();
  const { port } = new URL(target.url);
  for (const forbidden of ['127.0.0.1', '::1', '::ffff:127.0.0.1', '10.0.0.1', '169.254.169.254', 'not an address']) {
    for (const addresses of [[forbidden], ['1.1.1.1', forbidden], [forbidden, '1.1.1.1']]) {
      for (const scheme of ['http', 'https']) {
        const [answer] = await sendTo([`${scheme}://rebind.test:${port}/`], { resolve: async () => addresses });
        assert.equal(answer?.error, noAddress('rebind.test'));
      }
    }
  }
  assert.equal(target.connections(), 0);
});

test('a second DNS answer is checked like the first, and an unresolvable name is reported', async () => {
  await using allowed = await receiver();
  const { port } = new URL(allowed.url);
  // The first look-up answers with an address that is open, later ones with one of the same machine that is not.
  let asked = 0;
  await using dns = await dnsServer(() => (asked++ === 0 ? '127.0.0.1' : '127.8.8.8'));
  const resolve = resolver({ hostsFile: '/dev/null', servers: [dns.address] });
  const url = `http://changing.test:${port}/`;
  const sender = createSender(guardedAgents(['127.0.0.1/32'], resolve), '1');
  const send = (): Promise<Answer> => sender.send({ ...OUTGOING, url }, 0, new AbortController().signal);
  assert.equal((await send()).status, 204);
  // While the connection is kept, no name is looked up, so no other address can come in.
  assert.equal((await send()).status, 204);
  assert.equal(asked, 1);
  assert.equal(allowed.connections(), 1);
  sender.close();
  assert.equal((await send()).error, noAddress('changing.test'));
  assert.equal(allowed.connections(), 1);
  sender.close();

  await using silent = await dnsServer(() => undefined);
  const [answer] = await sendTo(['http://nowhere.test/'], {
    resolve: resolver({ hostsFile: '/dev/null', servers: [silent.address] }),
  });
  assert.equal(answer?.error, noAddress('nowhere.test'));
});

test('a request that is sent again, and one that is redirected, go to no address that was not judged', async () => {
  const told: string[] = [];
  const server = createServer((socket) => {
    told.push(String(socket.localAddress));
    let requests = 0;
    socket
      .on('error', () => undefined)
      .on('data', () => {
        requests += 1;
        // The second request on a kept connection gets no byte, so it is sent again on a new one.
        if (requests === 2) socket.destroy();
        else socket.write('HTTP/1.1 302 Found\r\nLocation: http://127.8.8.8/\r\nContent-Length: 0\r\n\r\n');
      });
  }).listen(0, '0.0.0.0');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  let asked = 0;
  await using dns = await dnsServer(() => (asked++ % 2 === 0 ? '127.0.0.1' : '127.8.8.8'));
  const resolve = resolver({ hostsFile: '/dev/null', servers: [dns.address] });
  const sender = createSender(guardedAgents(['127.0.0.1/32'], resolve), '1');
  const url = `http://changing.test:${port}/`;
  for (let round = 0; round < 20; round += 1) {
    const first = await sender.send({ ...OUTGOING, url }, 0, new AbortController().signal);
    assert.equal(first.status, 302);
    const again = await sender.send({ ...OUTGOING, url }, 0, new AbortController().signal);
    assert.equal(again.error, noAddress('changing.test'));
    assert.equal(again.isForbidden, true);
  }
  sender.close();
  server.close();
  assert.equal(asked, 40);
  assert.deepEqual(new Set(told), new Set(['127.0.0.1']));
  assert.equal(told.length, 20);
});

test('a tenant learns nothing of names inside: a name that is there and one that is not look alike; the log has it all', async () => {
  await using dns = await dnsServer((name) => ({ vm: '10.20.30.40', db: '127.0.0.1' })[name]);
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const resolve = resolver({ hostsFile: '/dev/null', servers: [dns.address] });
  const sender = createSender(guardedAgents([], resolve), '1', log);
  for (const name of ['vm', 'db', 'nothing']) {
    const url = `http://${name}/`;
    const answer = await sender.send({ ...OUTGOING, url }, 0, new AbortController().signal);
    const { latency: _, ...shown } = answer;
    const error = noAddress(name);
    assert.deepEqual(shown, { ok: false, status: null, error, response: null, isForbidden: true, isShortage: false });
  }
  sender.close();
  const logged = lines.map((line) => (JSON.parse(line) as { destination?: string }).destination);
  assert.deepEqual(logged, [
    'vm: 10.20.30.40 is not allowed',
    'db: 127.0.0.1 is not allowed',
    'nothing: the name nothing cannot be resolved',
  ]);
});

test('a failed connection is reported without its address', async () => {
  const [answer] = await sendTo(['http://inside.test:1/'], {
    allow: ['127.0.0.0/8'],
    resolve: async () => ['127.3.4.5'],
  });
  assert.equal(answer?.error, 'connect ECONNREFUSED');
});

test("this machine's own addresses are refused, public or not, unless they are allowed", async (t) => {
  const code = `
    import { createServer } from 'node:http';
    import { once } from 'node:events';
    import { guardedAgents } from './src/deliveries/webhooks/destination-guard.ts';
    import { createSender } from './src/deliveries/webhooks/send.ts';
    const server = createServer((_, response) => response.writeHead(204).end()).listen(8080, '::');
    await once(server, 'listening');
    const outgoing = { id: 'x', body: Buffer.from('{}'), webhook_secret: '', next_webhook_secret: null };
    const statuses = [];
    for (const allow of [[], ['9.9.9.9/32', '2600::7/128']]) {
      const { send } = createSender(guardedAgents(allow, async () => ['9.9.9.9']), '1');
      for (const host of ['9.9.9.9', '[2600::7]', 'own.test'])
        statuses.push((await send({ ...outgoing, url: 'http://' + host + ':8080/' }, 0, new AbortController().signal)).status);
    }
    console.log(JSON.stringify(statuses));
    process.exit();`;
  const network = 'ip link set lo up && ip addr add 9.9.9.9/32 dev lo && ip addr add 2600::7/128 dev lo nodad';
  const run = [
    '--net',
    'sh',
    '-c',
    `${network} && exec "$@"`,
    'sh',
    process.execPath,
    '--input-type=module',
    '-e',
    code,
  ];
  const made = spawnSync('unshare', ['--net', 'sh', '-c', network]);
  if (made.status !== 0) return t.skip('this machine makes no network namespaces');
  const { stdout } = await promisify(execFile)('unshare', run);
  assert.deepEqual(JSON.parse(stdout), [null, null, null, 204, 204, 204]);
});

test('proxies of the environment are not used', async () => {
  await using proxy = await receiver();
  await using target = await receiver();
  // Node reads these variables when it starts.
  const code = `
    import { guardedAgents } from './src/deliveries/webhooks/destination-guard.ts';
    import { createSender } from './src/deliveries/webhooks/send.ts';
    const { send } = createSender(guardedAgents(['127.0.0.0/8']), '1');
    const outgoing = { id: 'x', url: ${JSON.stringify(target.url)}, body: Buffer.from('{}'),
      webhook_secret: '', next_webhook_secret: null };
    console.log((await send(outgoing, 0, new AbortController().signal)).status);`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
    env: { ...process.env, NODE_USE_ENV_PROXY: '1', HTTP_PROXY: new URL(proxy.url).origin, NO_PROXY: '' },
  });
  assert.equal(stdout.trim(), '204');
  assert.equal(proxy.connections(), 0);
});

/** A DNS server that knows one IPv4 address per question, or that the name does not exist. */
async function dnsServer(
  answer: (name: string) => string | undefined,
): Promise<AsyncDisposable & { readonly address: string }> {
  const socket = createSocket('udp4');
  socket.on('message', (query, peer) => {
    // RFC 1035, 4.1: a header of 12 bytes, then the name, type and class asked for.
    const question = query.subarray(12, query.indexOf(0, 12) + 5);
    const isV4 = question.readUInt16BE(question.length - 4) === 1;
    const name = String(question.subarray(1, 1 + (question[0] ?? 0)));
    const address = isV4 ? answer(name) : undefined;
    const header = Buffer.from(query.subarray(0, 12));
    header.writeUInt16BE(address === undefined && isV4 ? 0x8183 : 0x8180, 2);
    header.writeUInt16BE(address === undefined ? 0 : 1, 6);
    header.writeUInt32BE(0, 8);
    // A pointer to the name, A, IN, a TTL of 0, four bytes.
    const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...(address?.split('.').map(Number) ?? [])]);
    socket.send(Buffer.concat([header, question, ...(address === undefined ? [] : [record])]), peer.port, peer.address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    address: `127.0.0.1:${socket.address().port}`,
    async [Symbol.asyncDispose]() {
      socket.close();
      await once(socket, 'close');
    },
  };
}
