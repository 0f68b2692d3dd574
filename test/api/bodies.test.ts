/** What a request's body may be (400, 413, 415, and their place in the order of checks), and which responses are compressed. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { dataOf } from '../support/field-sets.ts';
import { sharedHosted } from '../support/hosted.ts';

const shared = sharedHosted();

const JSON_TYPE = { 'content-type': 'application/json' };

test('400: bodies that are not JSON', async () => {
  const api = await shared();
  const bodies = [
    '',
    '{',
    '{"directory":{"name":"a"}',
    "{'a':1}",
    'null,',
    Buffer.from('{"directory":{"name":"\xff"}}', 'latin1'),
  ];
  for (const body of bodies) {
    const { status, json } = await api.send('POST', '/directories', { body, headers: JSON_TYPE });
    assert.deepEqual([status, json], [400, { error: 'Request body is not valid JSON' }], String(body).slice(0, 40));
  }
});

test('400: nested more than 1,000 levels deep; 1,000 are stored as given', async () => {
  const api = await shared();
  const post = (body: string) => api.send('POST', '/directories', { body, headers: JSON_TYPE });
  const nested = (depth: number): string => `{"a":${'['.repeat(depth)}"[\\"["${']'.repeat(depth)}}`;
  const deepest = nested(1000 - 3);
  const stored = await post(`{"directory":{"name":"a","metadata":${deepest}}}`);
  assert.equal(stored.status, 201);
  assert.ok(stored.text.includes(deepest));
  const tooDeep = [nested(1001 - 3), nested(2000), nested(30_000), '{"a":'.repeat(10_000)];
  for (const body of [...tooDeep.map((text) => `{"directory":{"name":"a","metadata":${text}}}`), '['.repeat(60_000)]) {
    const { status, json } = await post(body);
    assert.deepEqual([status, json], [400, { error: 'Request body is nested too deeply' }], body.slice(0, 40));
  }
});

test('422: a number that keeps its text is not taken for an object, and nothing changes', async () => {
  const api = await shared();
  const { id, webhook_secret } = await api.directory();
  const given = { headers: JSON_TYPE };
  for (const number of ['1', '1.0', '1e400', '12345678901234567890', '-0']) {
    const [create, change, access, secret] = await Promise.all([
      api.send('POST', '/directories', { body: `{"directory":${number}}`, ...given }),
      api.send('PATCH', `/directories/${id}`, { body: `{"directory":${number}}`, ...given }),
      api.send('PATCH', `/directories/${id}/access`, { body: number, ...given }),
      api.send('POST', `/directories/${id}/webhook_secret`, { body: number, ...given }),
    ]);
    assert.deepEqual([create.status, create.json], [422, { errors: { directory: ['is invalid'] } }], number);
    assert.deepEqual([change.status, change.json], [422, { errors: { directory: ['is invalid'] } }], number);
    assert.deepEqual([access.status, access.json], [422, { errors: { body: ['is invalid'] } }], number);
    assert.deepEqual([secret.status, secret.json], [422, { errors: { body: ['is invalid'] } }], number);
  }
  const row = api.database.reads.selectFrom('directories').select(['webhook_secret', 'next_webhook_secret']);
  assert.deepEqual(await row.where('id', '=', id).execute(), [{ webhook_secret, next_webhook_secret: null }]);
});

test('413: over 64 KiB, announced or counted while it arrives; 64 KiB are read', async () => {
  const api = await shared();
  const fill = (bytes: number): string => {
    const frame = '{"directory":{"name":"a"},"x":""}';
    return frame.replace('"x":"', `"x":"${'x'.repeat(bytes - frame.length)}`);
  };
  for (const chunked of [false, true]) {
    const given = { headers: JSON_TYPE, chunked };
    const large = await api.send('POST', '/directories', { body: fill(65_537), ...given });
    assert.deepEqual([large.status, large.json], [413, { error: 'Request body is over 65536 bytes' }]);
    assert.equal((await api.send('POST', '/directories', { body: fill(65_536), ...given })).status, 201);
  }
  const huge = await api.send('POST', '/directories', { body: fill(5_000_000), headers: JSON_TYPE });
  assert.equal(huge.status, 413, 'the answer is read although most of the body is not');
});

test('415: anything but JSON in UTF-8', async () => {
  const api = await shared();
  const body = '{"directory":{"name":"a"}}';
  const error = 'Content-Type must be application/json';
  for (const type of [
    '',
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/jsonp',
    'application/json; charset=latin1',
  ]) {
    const headers: Record<string, string> = type === '' ? {} : { 'content-type': type };
    const { status, json } = await api.send('POST', '/directories', { body, headers });
    assert.deepEqual([status, json], [415, { error }], type);
  }
  const packed = await api.send('POST', '/directories', {
    body,
    headers: { ...JSON_TYPE, 'content-encoding': 'gzip' },
  });
  assert.deepEqual([packed.status, packed.json], [415, { error: 'Content-Encoding is not supported' }]);
  const plain = await api.send('POST', '/directories', {
    body,
    headers: { ...JSON_TYPE, 'content-encoding': 'Identity' },
  });
  assert.equal(plain.status, 201);
  for (const type of ['application/json; charset=utf-8', 'APPLICATION/JSON', 'application/json;charset="UTF-8"']) {
    assert.equal((await api.send('POST', '/directories', { body, headers: { 'content-type': type } })).status, 201);
  }
});

test('the order of checks: 404 before the body, the body before the role, the role before the fields', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const member = await api.key(api.tenant.accountId, 'member');
  assert.equal((await member('PATCH', '/directories/unknown', { body: '{', headers: JSON_TYPE })).status, 404);
  assert.equal((await member('PATCH', `/directories/${id}`, { body: '{', headers: JSON_TYPE })).status, 400);
  assert.equal((await member('PATCH', `/directories/${id}`, { body: 'x' })).status, 415);
  assert.equal(
    (await member('PATCH', `/directories/${id}`, { json: { directory: { auth_mode: 'nonsense' } } })).status,
    403,
  );
  assert.equal(
    (await api.send('PATCH', `/directories/${id}`, { json: { directory: { auth_mode: 'nonsense' } } })).status,
    422,
  );
  assert.equal((await member('DELETE', '/directories/unknown/public_key')).status, 404);
});

test('gzip for JSON over 1 KiB, whole lists too; nothing else is compressed', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const row = { directory_id: id, size_bytes: 1, state: 'uploaded', inode: 1, mtime: 1, source: 'log' } as const;
  for (let i = 0; i < 700; i += 1)
    await api.database.db
      .insertInto('files')
      .values({ ...row, id: randomUUID(), path: Buffer.from(`f${i}`), uploaded_at: i, session_pid: null })
      .execute();
  async function get(path: string, encoding?: string, method = 'GET') {
    const headers = { authorization: `Bearer ${api.tenant.key}`, ...(encoding && { 'accept-encoding': encoding }) };
    const outgoing = request({
      host: '127.0.0.1',
      port: api.port,
      ca: api.ca,
      path: `/api/v1${path}`,
      headers,
      method,
    });
    outgoing.end();
    const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
    return { headers: incoming.headers, body: await buffer(incoming) };
  }
  for (const path of [`/directories/${id}/uploads`, `/directories/${id}/uploads?limit=50`, '/openapi.json']) {
    const plain = await get(path);
    for (const encoding of ['gzip', 'br, gzip;q=0.5', 'GZIP']) {
      const { headers, body } = await get(path, encoding);
      assert.equal(headers['content-encoding'], 'gzip', path);
      assert.match(String(headers.vary), /accept-encoding/);
      assert.ok(body.length < plain.body.length / 2);
      assert.deepEqual(gunzipSync(body), plain.body);
    }
    for (const encoding of ['identity', 'br', 'gzip;q=0', 'xgzip']) {
      const { headers, body } = await get(path, encoding);
      assert.deepEqual([headers['content-encoding'], body], [undefined, plain.body], encoding);
    }
    assert.match(String(plain.headers.vary), /accept-encoding/);
    const head = await get(path, 'gzip', 'HEAD');
    assert.deepEqual([head.headers['content-encoding'], head.body.length], [undefined, 0]);
  }
  const small = await get(`/directories/${id}/quota`, 'gzip');
  assert.equal(small.headers['content-encoding'], undefined);
});

test('an answer with a secret is never compressed: its length would depend on what stands beside the secret', async () => {
  const api = await shared();
  const encoded = { headers: { 'accept-encoding': 'gzip' } };
  const metadata = { note: 'x'.repeat(4000) };
  const long = `https://example.com/${'x'.repeat(1500)}`;
  const directory = { json: { directory: { name: 'Long', metadata } } };
  const made = await api.send('POST', '/directories', { ...directory, ...encoded });
  const { id } = dataOf<{ id: string }>(made);
  const answers = {
    made,
    shown: await api.send('GET', `/directories/${id}`, encoded),
    changed: await api.send('PATCH', `/directories/${id}`, { ...directory, ...encoded }),
    password: await api.send('POST', `/directories/${id}/password`, encoded),
    'without its key': await api.send('DELETE', `/directories/${id}/public_key`, encoded),
    'account webhook': await api.send('PUT', '/webhook', { json: { url: long }, ...encoded }),
    'account webhook again': await api.send('GET', '/webhook', encoded),
  };
  for (const [name, { status, headers, text }] of Object.entries(answers)) {
    assert.ok(status < 300 && text.length > 1024, name);
    assert.match(text, /"(?:webhook_secret|secret)":/, name);
    assert.deepEqual([headers['content-encoding'], headers['cache-control']], [undefined, 'no-store'], name);
  }
});
