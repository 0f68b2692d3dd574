/** Spellings of paths, methods and keys: each has one meaning, and wrong ones are refused with a message. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hosted } from '../support/hosted.ts';
import { rawExchange } from '../support/raw-http.ts';
import { scratch } from '../support/scratch.ts';

test('paths: one spelling each, but for percent signs; ids of any length and script are just unknown', async () => {
  using place = scratch();
  await using api = await hosted(place);
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
  using place = scratch();
  await using api = await hosted(place);
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
  using place = scratch();
  await using api = await hosted(place);
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
