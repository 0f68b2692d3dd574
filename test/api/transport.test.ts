/** HTTPS and nothing else (specification, "Authentication" 4); spellings of paths, methods and keys; closing; /healthz. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { StartingError } from '../../src/interfaces/http/health.ts';
import type { Waits } from '../../src/interfaces/http/server.ts';
import { hosted, sharedHosted } from '../support/hosted.ts';
import { until } from '../support/poll.ts';
import { rawExchange } from '../support/raw-http.ts';
import { scratch } from '../support/scratch.ts';

let check = async (): Promise<void> => undefined;
const shared = sharedHosted({ checkHealth: () => check() });

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
  const api = await shared();
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
  const api = await shared();
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
    ['POST', '/host_keys', 'GET, HEAD, OPTIONS'],
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

test('proxy mode: the trusted proxy nearest to the client says whether it used TLS, in a list and in any case', async () => {
  using place = scratch();
  await using api = await hosted(place, { tls: 'proxy', trustedProxies: ['192.0.2.0/24'] });
  const ask = async (protocol: string, path: string): Promise<string> => {
    const headers = `X-Forwarded-Proto: ${protocol}\r\n${path && `X-Forwarded-For: ${path}\r\n`}`;
    const answer = await exchange(connect(api.port, '127.0.0.1'), `${GET}Connection: close\r\n${headers}\r\n`);
    return answer.slice(9, 12);
  };
  const client = '203.0.113.9';
  for (const [protocol, path, status] of [
    ['HTTPS', '', '200'],
    ['https,https', '', '200'],
    ['https, http', `${client}, 192.0.2.1`, '200'],
    ['Https,http,http', `${client}, 192.0.2.1,192.0.2.2`, '200'],
    // The proxies replace the header.
    ['https', `${client}, 192.0.2.1`, '200'],
    ['http', `${client}, 192.0.2.1`, '400'],
    // The client has written the first value, and the proxies theirs behind it.
    ['https, http', client, '400'],
    ['https, http', '', '400'],
    ['https, http, http', `${client}, 192.0.2.1`, '400'],
    ['http, https', client, '200'],
    ['', '', '400'],
    ['https,', '', '400'],
  ] as const) {
    assert.equal(await ask(protocol, path), status, `${protocol} from ${path}`);
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

test('paths: one spelling each, but for percent signs; ids of any length and script are just unknown', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const unknown = { error: 'Not found' };
  for (const path of [
    '//api/v1/directories/',
    '///api/v1/directories',
    '//api//v1/directories',
    '//api/v1//directories',
    `/directories//${id}`,
    `/directories/${id}/`,
    `/directories/${id}//uploads`,
    `/directories/${id}/uploads/`,
    `//api/v1/DIRECTORIES`,
    '//api/v1/directories%2F',
    '//api%2Fv1/directories',
    '//api/v1/directories;a=b',
  ]) {
    const { status, json } = await api.send('GET', path);
    assert.deepEqual([status, json], [404, unknown], path);
  }
  const missing = { error: 'Directory not found' };
  for (const other of [
    'x',
    id.toUpperCase(),
    `${id}%00`,
    `${id}%20`,
    `%20${id}`,
    `${id}%2Fuploads`,
    '%2e%2e%2f%2e%2e',
    '%',
    '%zz',
    '%C3%28',
    '%F0%9F%92%A9',
    '%E2%80%AE',
    '%ED%A0%80',
    "'%20or%201=1--",
    '*',
    '__proto__',
    'a'.repeat(15_000),
    '%41'.repeat(5000),
  ]) {
    for (const [method, end] of [
      ['GET', ''],
      ['DELETE', ''],
      ['GET', '/uploads'],
      ['DELETE', '/public_key'],
    ] as const) {
      const { status, json } = await api.send(method, `/directories/${other}${end}`);
      assert.deepEqual([status, json], [404, missing], `${method} ${other.slice(0, 50)}${end}`);
    }
  }
  assert.equal((await api.send('GET', '/directories?%')).status, 200);
  // A proxy's rules about paths hold, because no path is resolved to another one.
  for (const path of [
    '//api/v1/x/../directories',
    '//x/../api/v1/directories',
    '//x/%2e%2e/api/v1/directories',
    '//api/v1/./directories',
    '//api/v1/%2e/directories?',
    '//dashboard/../api/v1/directories',
  ]) {
    const { status, json } = await api.send('GET', path);
    assert.deepEqual([status, json], [404, unknown], path);
  }
  for (const other of ['//%61pi/v1/directories', '//api/v1/%64irectories', '//%68ealthz', '//api%2fv1%2fdirectories']) {
    const { status, json } = await api.send('GET', other);
    assert.deepEqual([status, json], [404, { error: 'Not found' }], other);
  }
  assert.equal((await api.send('GET', '/..\\directories')).status, 400);
  assert.deepEqual(api.errors(), []);
});

test('HEAD is GET without a body, OPTIONS needs no key, and other methods are refused', async () => {
  const api = await shared();
  const { id } = await api.directory();
  for (const path of [
    '//healthz',
    '/directories',
    `/directories/${id}`,
    `/directories/${id}/uploads`,
    '/directories/x',
    '/x',
  ]) {
    const [head, get] = [await api.send('HEAD', path), await api.send('GET', path)];
    assert.deepEqual(
      [head.status, head.text, head.headers['content-type']],
      [get.status, '', 'application/json'],
      path,
    );
  }
  assert.equal((await api.send('HEAD', '/directories', { authorization: null })).status, 401);
  assert.equal((await api.send('HEAD', `/directories/${id}/public_key`)).status, 405);
  for (const method of ['TRACE', 'PROPFIND', 'LINK', 'M-SEARCH', 'QUERY']) {
    const { status, json } = await api.send(method, '/directories');
    assert.deepEqual([status, json], [405, { error: 'Method not allowed' }], method);
  }
  const lower = await rawExchange(api, `get /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
  assert.equal(lower.answers[0]?.status, 400, 'methods are case-sensitive');
  const own = { 'x-http-method-override': 'DELETE', 'x-original-url': `/api/v1/directories/${id}` };
  assert.equal((await api.send('GET', `/directories/${id}`, { headers: own })).status, 200);
  assert.equal((await api.send('GET', `/directories/${id}`)).status, 200, 'it is still there');
});

test('Authorization: any case of the scheme, blanks around the key, and nothing else', async () => {
  const api = await shared();
  const { key } = api.tenant;
  const ask = async (...headers: string[]): Promise<number | undefined> => {
    const lines = ['GET /api/v1/directories HTTP/1.1', 'Host: localhost', 'Connection: close', ...headers, '', ''];
    return (await rawExchange(api, lines.join('\r\n'))).answers[0]?.status;
  };
  for (const good of [`Bearer ${key}`, `bearer ${key}`, `BEARER ${key}`, `bEaReR   ${key}`, `Bearer ${key}  \t `]) {
    assert.equal(await ask(`Authorization: ${good}`), 200, good);
  }
  assert.equal(await ask(`AUTHORIZATION:Bearer ${key}`), 200);
  for (const bad of [
    key,
    `Bearer:${key}`,
    `Bearer\t${key}`,
    `Bearer "${key}"`,
    `Bearer ${key},`,
    `Bearer ${key}, Bearer ${key}`,
    `Bearer token=${key}`,
    `Token ${key}`,
    `Basic ${Buffer.from(`${key}:`).toString('base64')}`,
    `Bearer ${key.toUpperCase()}`,
    `Bearer ${key}\u00a0`,
    `Bearer ${encodeURIComponent(key)}%20`,
  ]) {
    assert.equal(await ask(`Authorization: ${bad}`), 401, bad);
  }
  assert.equal(await ask(`Authorization: Bearer ${key}`, 'Authorization: Bearer x'), 400);
  assert.equal(await ask(`Authorization: Bearer x`, `authorization: Bearer ${key}`), 400);
  for (const elsewhere of [`Cookie: key=${key}`, `X-Api-Key: ${key}`, `Proxy-Authorization: Bearer ${key}`]) {
    assert.equal(await ask(elsewhere), 401, elsewhere);
  }
  assert.equal((await api.send('GET', `/directories?access_token=${key}`, { authorization: null })).status, 401);
});

test('200 while everything works, 503 when something does not, without a key and without details', async () => {
  const api = await shared();
  const ask = () => api.send('GET', '//healthz', { authorization: null });
  const well = await ask();
  assert.deepEqual([well.status, well.json], [200, { status: 'ok' }]);
  check = () => Promise.reject(new Error('inner detail'));
  const ill = await ask();
  assert.deepEqual([ill.status, ill.json], [503, { error: 'Service unavailable' }]);
  assert.ok(api.log.some((line) => line.includes('inner detail')));
});

test('503 while berth starts, and no error in the log', async () => {
  const api = await shared();
  check = () => Promise.reject(new StartingError());
  const { status, json } = await api.send('GET', '//healthz', { authorization: null });
  assert.deepEqual([status, json], [503, { error: 'Service unavailable' }]);
  const lines = api.log.filter((line) => line.includes('does not listen yet'));
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).level),
    [30],
    'pino: info',
  );
});
