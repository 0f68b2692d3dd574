/** PUT …/files/*path: valid paths, bodies of any length and pace, and what remains of those that are cut off. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { filesByPath } from '../../src/arrivals/files/file-rows.ts';
import { type Api, hosted, sharedHosted } from '../support/hosted.ts';
import { until } from '../support/poll.ts';
import { rawConnection } from '../support/raw-http.ts';
import { scratch } from '../support/scratch.ts';
import { filesPlace } from './files-place.ts';

const shared = sharedHosted();

async function filesOf(api: Api) {
  const place = await filesPlace(api);
  const { id } = place;
  return {
    ...place,
    prefix: `/api/v1/directories/${id}/files/`,
    head: (target: string, more: string) =>
      `PUT ${target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${api.tenant.key}\r\n${more}\r\n\r\n`,
    put: (path: string, body = 'data', headers = {}) =>
      api.send('PUT', `/directories/${id}/files/${path}`, { body, headers }),
  };
}

test('a path is taken byte for byte', async () => {
  const files = await filesOf(await shared());
  const cases: [string, string, string?][] = [
    ['a', 'a'],
    ['a%25b', 'a%b'],
    ['%C3%A4', 'ä'],
    ['%FF', '\xff', '\u{FFFD}'],
    ['x%5Cy', 'x\\y'],
    ['line%0D%0Aend', 'line\r\nend'],
    ['..%20', '.. '],
    ['...', '...'],
    ['q%3Fx', 'q?x'],
    ['in%2Fout%2fx', 'in/out/x'],
    ['in%2Fout/y', 'in/out/y'],
    ['a%252Fb', 'a%2Fb'],
    ['plain+plus', 'plain+plus'],
    ['x.filepart', 'x.filepart'],
    ['n'.repeat(255), 'n'.repeat(255)],
  ];
  for (const [asked, name, shown = name] of cases) {
    const { status, json } = await files.put(asked);
    assert.deepEqual([status, json], [201, { data: { path: shown, size_bytes: 4 } }], asked);
    const bytes = Buffer.concat([
      Buffer.from(`${files.root}/`),
      Buffer.from(name, name === '\xff' ? 'latin1' : 'utf8'),
    ]);
    assert.equal(readFileSync(bytes, 'utf8'), 'data', asked);
  }
  const large = 'x'.repeat(100_000);
  assert.equal((await files.put('keyed', large, { 'idempotency-key': 'k' })).status, 201, 'a key of POST is none here');
  assert.equal(readFileSync(join(files.root, 'keyed'), 'utf8'), large);
  assert.equal((await files.put('a?b', 'new')).status, 422, 'what is behind the question mark is no part of it');
  assert.equal(readFileSync(join(files.root, 'a'), 'utf8'), 'data');
});

test('422 for a path that no file can have, or that two readers could understand differently; nothing changes', async () => {
  const files = await filesOf(await shared());
  const { place } = files.api;
  const before = readdirSync(place.dir, { recursive: true }).length;
  const bad = [
    '.',
    '..',
    'a/../b',
    'a/%2e%2E/b',
    '%2e',
    'a//b',
    'a/',
    '/a',
    'a%2F',
    'a%2F%2Fb',
    'a%2F..%2Fb',
    '%2Fa',
    'a%00',
    'a%',
    'a%zz',
    'n'.repeat(256),
  ];
  bad.push(Array(500).fill('d').join('/'), Array(30).fill('n'.repeat(200)).join('/'));
  for (const path of bad) {
    using connection = await rawConnection(files.api);
    connection.write(files.head(files.prefix + path, 'Content-Length: 1\r\nConnection: close') + 'x');
    await connection.ended;
    assert.match(connection.received(), /^HTTP\/1\.1 422 /, path);
  }
  assert.equal(readdirSync(place.dir, { recursive: true }).length, before);
  assert.equal((await files.api.send('PUT', `/directories/${files.id}/files`, { body: 'x' })).status, 405);
  assert.equal((await files.put('x', 'x', { 'content-encoding': 'gzip' })).status, 415);
  assert.equal((await files.put('x', 'x', { 'content-range': 'bytes 0-0/2' })).status, 400);
  const stranger = await files.api.account('pro');
  assert.equal((await stranger.send('PUT', `/directories/${files.id}/files/x`, { body: 'x' })).status, 404);
  assert.deepEqual(files.names(), []);
});

test('the file in a form is put there without its envelope; a form that cannot be read is refused', async () => {
  const files = await filesOf(await shared());
  const form = (content: string) =>
    `--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n${content}\r\n--b--\r\n`;
  const type = { 'content-type': 'Multipart/Form-Data; boundary=b' };
  const { status, json } = await files.put('out/a.csv', form('1,2\r\n3,4\r\n'), type);
  assert.deepEqual([status, json], [201, { data: { path: 'out/a.csv', size_bytes: 10 } }]);
  assert.equal(readFileSync(join(files.root, 'out/a.csv'), 'utf8'), '1,2\r\n3,4\r\n');

  const without = await files.put('b.csv', form('data'), { 'content-type': 'multipart/form-data' });
  assert.equal(without.status, 415);
  assert.match(without.text, /has no boundary\. Send the file itself/);
  assert.equal((await files.put('b.csv', form('data').slice(0, -8), type)).status, 400);
  assert.equal((await files.put('b.csv', 'data', type)).status, 400);
  assert.deepEqual(files.names(), ['out', 'out/a.csv']);
  const plain = await files.put('b.csv', form('x'), { 'content-type': 'application/x-www-form-urlencoded' });
  assert.equal(plain.status, 201, 'curl --data-binary says so of every body');
});

test('files with a prefix are found among many others without reading these', async () => {
  const files = await filesOf(await shared());
  const { id, api } = files;
  const { db, reads } = api.database;
  const long = 'l'.repeat(2100);
  const some = ['b', 'ba', 'b/', 'ä', 'ä/x', `${long}1`, `${long}2`].map((path) => Buffer.from(path));
  const odd = ['b\xff', 'b\xffx', '\xe4'].map((path) => Buffer.from(path, 'latin1'));
  const many = Array.from({ length: 3000 }, (_, i) => Buffer.from(`${i % 2 === 0 ? 'a' : 'z'}${i}`));
  const row = { directory_id: id, size_bytes: 1, state: 'placed', uploaded_at: 1, inode: 1, mtime: 1 } as const;
  for (const path of [...some, ...odd, ...many])
    await db
      .insertInto('files')
      .values({ id: randomUUID(), ...row, path, source: 'log', session_pid: null })
      .execute();
  const all = [...some, ...odd, ...many].map(String);
  for (const prefix of ['', 'a', 'a1', 'b', 'ba', 'bb', 'b/', 'ä', 'b\u{FFFD}', 'b\u{FFFD}x', '\u{FFFD}', long, 'zz']) {
    const listed: string[] = [];
    for (let path = `/directories/${id}/files?limit=400&prefix=${encodeURIComponent(prefix)}`; path !== '';) {
      const { json, headers } = await api.send('GET', path);
      listed.push(...(json as { data: { path: string }[] }).data.map((file) => file.path));
      path = /^<\/api\/v1(.*)>; rel="next"$/.exec(String(headers.link ?? ''))?.[1] ?? '';
    }
    const expected = all.filter((path) => path.startsWith(prefix));
    assert.deepEqual(listed.toSorted(), expected.toSorted(), prefix);
  }

  let rowsRead = 0;
  const counted = reads.withPlugin({
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      rowsRead += result.rows.length;
      return result;
    },
  });
  for (const prefix of ['bb', 'zz', 'b'])
    assert.ok((await filesByPath(counted, id, { prefix, limit: 10 })).length <= 10);
  assert.ok(rowsRead < many.length, `${rowsRead} rows`);

  const half = many[7] ?? Buffer.alloc(0);
  await db.updateTable('files').set({ state: 'partial' }).where('path', '=', half).execute();
  rowsRead = 0;
  const partial = await filesByPath(counted, id, { states: ['partial'], limit: 10 });
  assert.deepEqual([partial.map(({ path }) => String(path)), rowsRead], [[String(half)], 1]);
});

test('If-None-Match and If-Match say what may be replaced; of many that make one file, one wins', async () => {
  const files = await filesOf(await shared());
  const made = await files.put('in/a', 'one', { 'if-none-match': '*' });
  const etag = String(made.headers.etag);
  assert.deepEqual([made.status, /^"[\w-]+"$/.test(etag)], [201, true]);
  const content = () => readFileSync(join(files.root, 'in/a'), 'utf8');
  for (const headers of [{ 'if-none-match': '*' }, { 'if-none-match': etag }, { 'if-match': '"other"' }]) {
    const { status, text } = await files.put('in/a', 'two', headers);
    assert.deepEqual([status, text], [412, '{"error":"There is another file by now"}'], JSON.stringify(headers));
    assert.equal(content(), 'one');
  }
  assert.equal((await files.put('in/b', 'x', { 'if-match': '*' })).status, 412);
  assert.equal((await files.put('in/a', 'three', { 'if-match': `"x", ${etag}` })).status, 200);
  assert.equal(content(), 'three');
  assert.equal((await files.put('in/a', 'four', { 'if-match': etag })).status, 412, 'it has a new one now');

  const all = await Promise.all(
    Array.from({ length: 12 }, (_, i) => files.put('race', `${i}`, { 'if-none-match': '*' })),
  );
  const winners = all.flatMap(({ status }, i) => (status === 201 ? [`${i}`] : []));
  assert.deepEqual(winners, [readFileSync(join(files.root, 'race'), 'utf8')]);
  assert.equal(all.filter(({ status }) => status === 412).length, 11);
  assert.deepEqual(files.inTransit(), []);
  assert.deepEqual(files.names().toSorted(), ['in', 'in/a', 'race']);
});

test('a body takes longer than other requests may, as long as it keeps coming; one that is cut leaves nothing', async () => {
  using place = scratch();
  const waits = {
    handshakeTimeout: 10_000,
    headersTimeout: 1000,
    requestTimeout: 1000,
    keepAliveTimeout: 1000,
    inactivityTimeout: 3000,
    connectionsCheckingInterval: 100,
  };
  await using api = await hosted(place, { waits });
  const files = await filesOf(api);
  using slow = await rawConnection(files.api);
  slow.write(files.head(`${files.prefix}slow`, 'Transfer-Encoding: chunked'));
  for (let i = 0; i < 6; i += 1) {
    slow.write('1\r\nx\r\n');
    await wait(500);
    assert.equal(slow.received(), '');
    assert.equal(existsSync(join(files.root, 'slow')), false, 'not before it is complete');
  }
  slow.write('0\r\n\r\n');
  await until('it is answered', () => slow.received().includes('"size_bytes":6'));

  using silent = await rawConnection(files.api);
  silent.write(`${files.head(`${files.prefix}silent`, 'Content-Length: 10')}12345`);
  using gone = await rawConnection(files.api);
  gone.write(`${files.head(`${files.prefix}gone`, 'Content-Length: 10')}12345`);
  using broken = await rawConnection(files.api);
  broken.write(`${files.head(`${files.prefix}broken`, 'Transfer-Encoding: chunked')}5\r\n12345\r\nnonsense\r\n`);
  using other = await rawConnection(files.api);
  other.write(
    `PATCH /api/v1/directories/${files.id} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${files.api.tenant.key}\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{`,
  );
  await until('they come', () => files.inTransit().length >= 2);
  gone.socket.destroy();
  await Promise.all([silent.ended, broken.ended, other.ended]);
  assert.match(other.received(), /^HTTP\/1\.1 408/, 'other requests have their time');
  await until('nothing is left', () => files.inTransit().length === 0);
  assert.deepEqual(files.names(), ['slow']);
  assert.deepEqual(files.api.errors(), []);
});

test('429 beyond 16 at once for one account; running uploads and other accounts continue', async () => {
  const files = await filesOf(await shared());
  const open = await Promise.all(
    Array.from({ length: 16 }, async (_, i) => {
      const connection = await rawConnection(files.api);
      connection.write(`${files.head(`${files.prefix}f${i}`, 'Content-Length: 2')}1`);
      return connection;
    }),
  );
  await until('all are under way', () => files.inTransit().length === 16);
  assert.equal((await files.put('more')).status, 429);
  for (const { write } of open) write('2');
  await until('all are there', () => files.names().length === 16);
  await until('all are answered', () => open.every(({ received }) => received().startsWith('HTTP/1.1 201')));
  assert.equal((await files.put('more')).status, 201);
  for (const connection of open) connection[Symbol.dispose]();
});

test('507 beyond the quota, as soon as it is passed: the client reads why, and nothing is left', async () => {
  const files = await filesOf(await shared());
  await files.api.database.db
    .updateTable('directories')
    .set({ quota_bytes: 1_000_000, storage_bytes: 1 })
    .where('id', '=', files.id)
    .execute();
  assert.equal((await files.put('fits', 'x'.repeat(999_999))).status, 201);
  const { status, text } = await sendLong(files.api, `${files.prefix}large`, 50_000_000);
  assert.deepEqual([status, text], [507, '{"error":"The quota of the directory does not allow it"}']);
  await until('nothing is left', () => files.inTransit().length === 0);
  assert.deepEqual(files.names(), ['fits']);
});

/** Sends `length` bytes, like a client that reads the answer as soon as it comes. */
async function sendLong(api: Api, path: string, length: number): Promise<{ status: number; text: string }> {
  const headers = { authorization: `Bearer ${api.tenant.key}`, 'content-length': length };
  const outgoing = request({ host: '127.0.0.1', port: api.port, ca: api.ca, method: 'PUT', path, headers });
  outgoing.on('error', () => undefined);
  const answered = once(outgoing, 'response');
  const chunk = Buffer.alloc(1_000_000);
  void (async () => {
    for (let sent = 0; sent < length && !outgoing.destroyed; sent += chunk.length) {
      if (!outgoing.write(chunk)) await once(outgoing, 'drain').catch(() => undefined);
    }
    outgoing.end();
  })();
  const [incoming] = (await answered) as [IncomingMessage];
  let text = '';
  for await (const part of incoming) text += String(part);
  outgoing.destroy();
  return { status: incoming.statusCode ?? 0, text };
}
