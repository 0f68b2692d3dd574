/** Slow clients: each wait is limited, with an answer where that is possible, and so is each size. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { Kysely } from 'kysely';
import type { Tables } from '../../src/foundation/db/schema.ts';
import type { Waits } from '../../src/interfaces/http/server.ts';
import type { ApiClient } from '../support/api-client.ts';
import { issueKey } from '../support/berth.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import { type Api, hosted, sharedHosted } from '../support/hosted.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { until } from '../support/poll.ts';
import { answersIn, type RawConnection, rawConnection } from '../support/raw-http.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';

const shared = sharedHosted();

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));

/** A hundredth of what the service waits, about. */
const WAITS: Waits = {
  handshakeTimeout: 250,
  headersTimeout: 250,
  requestTimeout: 500,
  keepAliveTimeout: 500,
  inactivityTimeout: 1000,
  connectionsCheckingInterval: 20,
};
const impatient = sharedHosted({ waits: WAITS });
const HEAD = 'POST /api/v1/directories HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n';

/** Writes a byte now and then, without end. Returns the answer, and after how many bytes the connection ended. */
async function drip(api: Api, start: string, byte: string): Promise<{ statuses: number[]; drops: number }> {
  using connection = await rawConnection(api);
  let drops = 0;
  connection.write(start);
  const timer = setInterval(() => {
    connection.write(byte);
    drops += 1;
  }, 20);
  await connection.ended;
  clearInterval(timer);
  const statuses = answersIn(connection.received()).map(({ status }) => status);
  return { statuses, drops };
}

test('408: slow headers and bodies are cut off, and berth does not log that as its own failure', async () => {
  using place = scratch();
  // The handshake and the first bytes of seven clients may take this process a while.
  const waits = {
    ...WAITS,
    handshakeTimeout: 30_000,
    headersTimeout: 1500,
    requestTimeout: 3000,
    inactivityTimeout: 30_000,
  };
  await using api = await hosted(place, { waits });
  const key = `Authorization: Bearer ${api.tenant.key}\r\n`;
  const cases: Record<string, [start: string, byte: string]> = {
    'a request line': ['GET /', 'x'],
    'a header': [`${HEAD}X: `, 'x'],
    'many headers': [HEAD, 'X: y\r\n'],
    'a body with its length': [`${HEAD}${key}Content-Length: 60000\r\n\r\n`, ' '],
    'a body in chunks': [`${HEAD}${key}Transfer-Encoding: chunked\r\n\r\n`, '1\r\n \r\n'],
    'a chunk extension': [`${HEAD}${key}Transfer-Encoding: chunked\r\n\r\n1;`, 'x'],
    'a body that was not asked for': [`GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n`, 'x'],
  };
  await Promise.all(
    Object.entries(cases).map(async ([name, [start, byte]]) => {
      const { statuses, drops } = await drip(api, start, byte);
      assert.deepEqual(statuses, [name.includes('not asked for') ? 200 : 408], name);
      // Some 150 in three seconds. On a busy machine they come more slowly, and so does the end.
      assert.ok(drops < 1500, `${name}: ${drops} bytes`);
    }),
  );
  assert.deepEqual(api.errors(), []);
});

test('connections that never speak TLS, stop within it, or send nothing after it, are ended', async () => {
  const api = await impatient();
  // A record header of a handshake, then silence; a drip of it; and not even that.
  for (const [first, more] of [
    ['', ''],
    ['\x16\x03\x01\x02\x00\x01', ''],
    ['\x16\x03\x01\x3f\x00\x01', '\0'],
  ] as const) {
    const socket = connect(api.port, '127.0.0.1');
    socket.on('error', () => undefined).resume();
    socket.write(first, 'latin1');
    const timer = setInterval(() => void socket.write(more, 'latin1'), 20);
    // A drop that meets the end is an error, on which `once` would reject.
    if (!socket.closed) await new Promise((resolve) => void socket.once('close', resolve));
    clearInterval(timer);
  }
  for (const start of ['', 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n']) {
    using connection = await rawConnection(api);
    connection.write(start);
    await connection.ended;
    assert.match(connection.received(), start === '' ? /^$|^HTTP\/1\.1 408 / : /^HTTP\/1\.1 200 /);
  }
  assert.deepEqual(api.errors(), []);
});

test('a client without a key is answered before its body is read; one with a key, after its body', async () => {
  const api = await shared();
  const body = JSON.stringify({ directory: { name: 'Acme' } });
  const begin = async (key: string): Promise<RawConnection> => {
    const connection = await rawConnection(api);
    const length = `Content-Length: ${body.length}\r\n`;
    connection.write(`${HEAD}Authorization: Bearer ${key}\r\n${length}\r\n${body.slice(0, -1)}`);
    return connection;
  };
  using known = await begin(api.tenant.key);
  using unknown = await begin(`svc_live_${'x'.repeat(40)}`);
  await until('the later one is answered', () => unknown.received().startsWith('HTTP/1.1 401 '));
  assert.equal(known.received(), '');
  known.write(body.slice(-1));
  await until('it is made', () => known.received().startsWith('HTTP/1.1 201 '));
});

test('a client that does not read its answers is cut off', async () => {
  const api = await impatient();
  const { id } = await api.directory({ metadata: { fill: 'x'.repeat(16_000) } });
  using connection = await rawConnection(api);
  connection.socket.pause();
  // Far more answers than the sockets' buffers hold.
  const request = `GET /api/v1/directories/${id} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${api.tenant.key}\r\n\r\n`;
  for (let i = 0; i < 2000; i += 1) connection.write(request);
  // A socket that reads nothing learns of the end when it writes.
  await until('the connection is cut', () => {
    connection.write(' ');
    return connection.socket.destroyed;
  });
  assert.ok(connection.received().length < 2000 * 16_000, 'not all of it was sent');
});

test('one that asks without end while the database answers nothing is not read any more', async () => {
  using place = scratch();
  const database = Promise.withResolvers<void>();
  let asked = 0;
  const slow = (reads: Kysely<Tables>): Kysely<Tables> =>
    reads.withPlugin({
      transformQuery: ({ node }) => node,
      async transformResult({ result }) {
        asked += 1;
        await database.promise;
        return result;
      },
    });
  await using api = await hosted(place, { rateLimit: 3000, authenticationReads: slow });
  using connection = await rawConnection(api);
  const request = `GET /api/v1/directories HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${api.tenant.key}\r\n\r\n`;
  const wanted = 2000;
  connection.write(request.repeat(wanted));
  await until('it asks', () => asked > 0);
  await sleep(1000);
  // Some fit into what is read at once.
  assert.ok(asked < 500, `${asked} requests were begun`);
  database.resolve();
  const last = 'HTTP/1.1 200 ';
  await until('all are answered', () => connection.received().split(last).length === wanted + 1);
});

test('431 and 413: headers past 16 KiB or a hundred, bodies past 64 KiB, while they still arrive', async () => {
  const api = await shared();
  const key = `Authorization: Bearer ${api.tenant.key}\r\n`;
  const cases: [string, number][] = [
    [`${HEAD}X: ${'x'.repeat(17_000)}`, 431],
    [`${HEAD}${'X: y\r\n'.repeat(20_000)}`, 431],
    [`${HEAD}${'x: y\r\n'.repeat(101)}\r\n`, 431],
    [`GET /${'x'.repeat(17_000)}`, 431],
    [`${HEAD}${key}Content-Length: 65537\r\n\r\n`, 413],
    [`${HEAD}${key}Content-Length: 9007199254740993\r\n\r\n`, 413],
    [`${HEAD}${key}Transfer-Encoding: chunked\r\n\r\n10001\r\n${' '.repeat(65_537)}`, 413],
    [`${HEAD}${key}Transfer-Encoding: chunked\r\n\r\n${'1\r\n \r\n'.repeat(65_537)}`, 413],
  ];
  for (const [bytes, status] of cases) {
    using connection = await rawConnection(api);
    connection.write(bytes);
    await connection.ended;
    const answers = answersIn(connection.received());
    assert.deepEqual(
      answers.map((answer) => answer.status),
      [status],
      bytes.slice(-40),
    );
    assert.match(answers[0]?.body ?? '', /^\{"error":"[^"]+"\}$/);
  }
  assert.deepEqual(api.errors(), []);
});

test('silent connections take no more than half of the descriptors: all else goes on', async () => {
  using place = scratch();
  const { config, environment } = await fixedPorts(place);
  await using serve = await startServe(config, environment, { by: ['prlimit', '--nofile=400'] });
  using before = clientOf(config, await issueKey(config));
  const create = async (name: string): Promise<number> =>
    (await before.send('POST', '/directories', { json: { directory: { name } } })).status;
  assert.equal(await create('before'), 201);
  using silent = new DisposableStack();
  const sockets = Array.from({ length: 500 }, () => {
    const socket = connect(config.api.port, '127.0.0.1').on('error', () => undefined);
    silent.defer(() => socket.destroy());
    return socket.resume();
  });
  await until('some are turned away', () => sockets.some(({ closed }) => closed));
  const open = readdirSync(`/proc/${serve.pid}/fd`).length;
  assert.ok(open < 350, `${open} of 400 are open`);
  assert.equal(await create('meanwhile'), 201);
});

/** What the supervisor of `scripts/start` and of the image gets. */
function supervisorsView(environment: Record<string, string>): string {
  const script = 'for part in say settings supervise; do . "scripts/lib/$part.sh"; done; health_status';
  const env = { ...nodeEnvironment, ...environment };
  return execFileSync('bash', ['-c', script], { cwd: PROJECT, env, encoding: 'utf8' });
}

test('keep-alive connections from everywhere keep out nobody with a key, whether new or connected before', async () => {
  using place = scratch();
  const { config, environment } = await fixedPorts(place);
  await using serve = await startServe(config, environment, { by: ['prlimit', '--nofile=400'] });
  const key = await issueKey(config);
  using before = clientOf(config, key);
  const list = async (client: ApiClient): Promise<number> => (await client.send('GET', '/directories')).status;
  assert.equal(await list(before), 200);
  using idle = new DisposableStack();
  const ca = readFileSync(config.tls.cert);
  const open: TLSSocket[] = [];
  const flood = async (count: number, addressOf: (i: number) => string): Promise<void> => {
    for (let i = 0; i < count; i += 50) {
      const some = Array.from({ length: 50 }, (_, j) => {
        const from = { host: '127.0.0.1', localAddress: addressOf(i + j) };
        const plain = connect({ port: config.api.port, ...from }).on('error', () => undefined);
        const socket = connectTls({ socket: plain, host: '127.0.0.1', ca });
        idle.defer(() => socket.destroy());
        return socket.on('error', () => undefined).resume();
      });
      await Promise.all(
        some.map(async (socket) => {
          // Maybe closed at once.
          await Promise.race([once(socket, 'secureConnect'), once(socket, 'close')]).catch(() => undefined);
          socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
        }),
      );
      open.push(...some);
    }
  };
  for (const addressOf of [() => '127.0.0.9', (i: number) => `127.0.1.${i % 100}`]) {
    await flood(500, addressOf);
    await until('there is an end to them', () => open.filter(({ closed }) => !closed).length <= 200);
    using fresh = clientOf(config, key);
    for (const client of [fresh, before]) assert.equal(await list(client), 200);
    assert.ok(readdirSync(`/proc/${serve.pid}/fd`).length < 350);
    assert.equal(supervisorsView(environment), '200\n');
  }
});
