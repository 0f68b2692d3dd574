/** What a request's body may be: 400, 413, 415, and their place in the order of checks. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hosted } from '../support/hosted.ts';
import { scratch } from '../support/scratch.ts';

const JSON_TYPE = { 'content-type': 'application/json' };

test('400: bodies that are not JSON', async () => {
  using place = scratch();
  await using api = await hosted(place);
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
  using place = scratch();
  await using api = await hosted(place);
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
  using place = scratch();
  await using api = await hosted(place);
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
  assert.deepEqual(await row.execute(), [{ webhook_secret, next_webhook_secret: null }]);
});

test('413: over 64 KiB, announced or counted while it arrives; 64 KiB are read', async () => {
  using place = scratch();
  await using api = await hosted(place);
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
  using place = scratch();
  await using api = await hosted(place);
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
  for (const type of ['application/json; charset=utf-8', 'APPLICATION/JSON', 'application/json;charset="UTF-8"']) {
    assert.equal((await api.send('POST', '/directories', { body, headers: { 'content-type': type } })).status, 201);
  }
});

test('the order of checks: 404 before the body, the body before the role, the role before the fields', async () => {
  using place = scratch();
  await using api = await hosted(place);
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
