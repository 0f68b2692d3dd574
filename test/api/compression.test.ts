/** JSON answers over 1 KiB are compressed for clients that accept gzip, and have the same content. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { once } from 'node:events';
import { test } from 'node:test';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { dataOf } from '../support/field-sets.ts';
import { hosted } from '../support/hosted.ts';
import { scratch } from '../support/scratch.ts';

test('gzip for JSON over 1 KiB, whole lists too; nothing else is compressed', async () => {
  using place = scratch();
  await using api = await hosted(place);
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
  using place = scratch();
  await using api = await hosted(place);
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
