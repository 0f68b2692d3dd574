/** HTTPS and nothing else (specification, "Authentication" 4); paths, methods and clients that misbehave. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import type { Waits } from '../../src/doors/http/server.ts';
import { hosted } from '../support/hosted.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';

/** Sends the bytes and returns all that comes back until the other side ends. */
async function exchange(socket: Socket, bytes: string): Promise<string> {
  socket.on('error', () => undefined);
  socket.write(bytes);
  return text(socket);
}

const HOUR = 3_600_000;
const WAITS: Waits = {
  handshakeTimeout: HOUR,
  headersTimeout: HOUR,
  requestTimeout: HOUR,
  keepAliveTimeout: HOUR,
  inactivityTimeout: HOUR,
  connectionsCheckingInterval: 1000,
};

const GET = 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n';

test('400: plain HTTP on the TLS port is answered at once, readably', async () => {
  using place = scratch();
  // The time for a handshake, and every other, is longer than this test's.
  await using api = await hosted(place, { waits: WAITS });
  const request = `GET /api/v1/directories HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${api.tenant.key}\r\n\r\n`;
  const answer = await exchange(connect(api.port, '127.0.0.1'), request);
  const [head = '', body = ''] = answer.split('\r\n\r\n');
  assert.match(head, /^HTTP\/1\.1 400 Bad Request\r\n/);
  assert.match(head, /content-type: application\/json/i);
  assert.deepEqual(JSON.parse(body), { error: 'This is an HTTPS port: use https://' });
  assert.match(await exchange(connect(api.port, '127.0.0.1'), `POST / HTTP/1.1\r\n${'x'.repeat(100_000)}`), / 400 /);
  assert.equal((await api.send('GET', '/directories')).status, 200, 'TLS goes on');
});

test('TLS 1.2 and 1.3 are spoken, older versions are not', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const options = { port: api.port, host: '127.0.0.1', ca: api.ca };
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const socket = connectTls({ ...options, minVersion: version, maxVersion: version });
    await once(socket, 'secureConnect');
    assert.equal(socket.getProtocol(), version);
    socket.destroy();
  }
  const old = connectTls({ ...options, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' });
  await assert.rejects(once(old, 'secureConnect'));
});

test('404 and 405: unknown paths, wrong methods with Allow, OPTIONS; none of these needs a key', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const options = { authorization: null };
  for (const path of [
    '//',
    '//api/v1',
    '//api/v2/directories',
    '/directories/',
    '/directories/x/y',
    '//api/v1/Directories',
  ]) {
    const { status, json } = await api.send('GET', path, options);
    assert.deepEqual([status, json], [404, { error: 'Not found' }], path);
  }
  const cases = [
    ['PUT', '/directories', 'GET, HEAD, POST, OPTIONS'],
    ['POST', '/directories/x', 'GET, HEAD, PATCH, DELETE, OPTIONS'],
    ['POST', '/directories/x/uploads', 'GET, HEAD, DELETE, OPTIONS'],
    ['GET', '/directories/x/public_key', 'DELETE, OPTIONS'],
    ['PURGE', '/directories', 'GET, HEAD, POST, OPTIONS'],
    ['DELETE', '//healthz', 'GET, HEAD, OPTIONS'],
  ] as const;
  for (const [method, path, allow] of cases) {
    const { status, json, headers } = await api.send(method, path, options);
    assert.deepEqual([status, json, headers.allow], [405, { error: 'Method not allowed' }, allow], `${method} ${path}`);
    const asked = await api.send('OPTIONS', path, options);
    assert.deepEqual([asked.status, asked.text, asked.headers.allow], [204, '', allow]);
  }
});

test('a request that is not HTTP, or is too large, gets an error body', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const cases: [string, number][] = [
    ['nonsense\r\n\r\n', 400],
    [`${GET}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 400],
    [`${GET}Content-Length: 1\r\nContent-Length: 2\r\n\r\nx`, 400],
    [`${GET}X: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
    ['GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
    ['GET /healthz HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n', 400],
    [`${GET}Expect: the-unexpected\r\nConnection: close\r\n\r\n`, 417],
  ];
  for (const [bytes, status] of cases) {
    const socket = connectTls({ port: api.port, host: '127.0.0.1', ca: api.ca });
    const answer = await exchange(socket, bytes);
    assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `), bytes.slice(0, 60));
    assert.match(answer, /\{"error":"[^"]+"\}/);
    assert.equal(answer.match(/HTTP\/1\.1/g)?.length, 1);
  }
});

test('proxy mode: only a proxy that says that its client used TLS', async () => {
  using place = scratch();
  await using api = await hosted(place, { tls: 'proxy' });
  const ask = (headers: string): Promise<string> =>
    exchange(connect(api.port, '127.0.0.1'), `${GET}Connection: close\r\n${headers}\r\n`);
  assert.match(await ask('X-Forwarded-Proto: https\r\n'), /^HTTP\/1\.1 200 /);
  for (const headers of ['', 'X-Forwarded-Proto: http\r\n', 'X-Forwarded-Proto: https, http\r\n']) {
    const answer = await ask(headers);
    assert.match(answer, /^HTTP\/1\.1 400 /);
    assert.match(answer, /\{"error":"Use https:\/\/"\}/);
  }
});

test('closing finishes the request in flight and ends connections that do nothing', async () => {
  using place = scratch();
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  let asked = false;
  await using api = await hosted(place, {
    checkHealth: () => {
      asked = true;
      return held;
    },
  });
  const silent = connect(api.port, '127.0.0.1');
  await once(silent, 'connect');
  await api.send('GET', '/directories');
  const inFlight = api.send('GET', '//healthz');
  await until('the request has arrived', () => asked);
  const closing = api.server.close(60_000);
  const refused = connect(api.port, '127.0.0.1');
  await assert.rejects(once(refused, 'connect'), { code: 'ECONNREFUSED' });
  release();
  assert.equal((await inFlight).status, 200);
  await closing;
  if (!silent.closed) await once(silent, 'close');
});
