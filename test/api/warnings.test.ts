/** Fields that do not apply are named in a `Warning` header; status and body stay as specified. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sharedHosted } from '../support/hosted.ts';

const shared = sharedHosted();

const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3oDGmVbqC2W7mJj7Y1v0b6sVb3fYgq6k0xw5sQ2v8P';

test('fields that a request does not set, a mode that lets nobody in, and addresses that webhooks cannot reach', async () => {
  const api = await shared();
  async function warningOf(method: string, path: string, body: object, status = 200): Promise<unknown> {
    const answer = await api.send(method, path, { json: body });
    assert.equal(answer.status, status, answer.text);
    assert.deepEqual(Object.keys(answer.json as object), ['data']);
    return answer.headers['warning'];
  }
  const create = (directory: object, beside = {}): Promise<unknown> =>
    warningOf('POST', '/directories', { directory: { name: 'A', ...directory }, ...beside }, 201);
  const { id } = await api.directory();
  const update = (directory: object): Promise<unknown> => warningOf('PATCH', `/directories/${id}`, { directory });

  assert.equal(await create({ retention_days: 1, metadata: {} }), undefined);
  assert.equal(
    await create({ webhook_url: 'https://example.com', auth_mode: 'both' }, { name: 'B' }),
    '299 - "not applied by this request: webhook_url, auth_mode, name"',
  );
  const hostile = { 'a"\r\nx: y': 1, é: 1, ['x'.repeat(1000)]: 1, 'a b\\': 1 };
  const hidden = Array<string>(4).fill('(a name that is not shown)').join(', ');
  assert.equal(await create(hostile), `299 - "not applied by this request: ${hidden}"`);
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`f${i}`, 1]));
  assert.equal(
    await create(many),
    '299 - "not applied by this request: f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 and 90 more"',
  );

  assert.equal(await update({ name: 'C', max_connections: 3 }), undefined);
  assert.equal(await update({ retention_days: 3 }), '299 - "not applied by this request: retention_days"');
  const lockedOut = '299 - "auth_mode is public_key and no public_key is stored: nobody can log in"';
  assert.equal(await update({ auth_mode: 'both' }), undefined);
  assert.equal(await update({ auth_mode: 'public_key' }), lockedOut);
  assert.equal(
    await update({ auth_mode: 'public_key', name: 'D' }),
    `299 - "not applied by this request: name", ${lockedOut}`,
  );
  assert.equal(await update({ auth_mode: 'public_key', public_key: KEY }), undefined);

  for (const host of ['127.0.0.1', '0x7f.1', '[::1]', '10.2.0.1', '169.254.169.254', '[::ffff:127.0.0.1]']) {
    assert.match(
      String(await update({ webhook_url: `http://${host}/x` })),
      /^299 - "webhooks to [0-9a-f:.]+ will be refused/,
    );
  }
  for (const url of [
    'https://example.com/127.0.0.1',
    'http://1.1.1.1/',
    'http://10.1.2.3/',
    'http://localhost/',
    null,
  ]) {
    assert.equal(await update({ webhook_url: url }), undefined, String(url));
  }
});

test('a mistyped name gets 422 on our own endpoints, and a Warning on those of the specification', async () => {
  const api = await shared();
  const { id } = await api.directory({ external_id: 'cust-42' });
  const of = `/directories/${id}`;
  const wrong: [string, string, object | undefined, string][] = [
    ['PATCH', `${of}/access`, { suspend: true }, 'suspend'],
    ['PATCH', `${of}/access`, { suspended: true, access: {} }, 'access'],
    ['PUT', `${of}/quota`, { max_bytes: 1, bytes: 2 }, 'bytes'],
    ['POST', `${of}/public_keys`, { key: KEY }, 'key'],
    ['POST', `${of}/webhook_secret`, { active: true }, 'active'],
    ['POST', `${of}/deliveries/replay`, { since: '2026-11-20T00:00:00Z', until: 'x' }, 'until'],
    ['GET', `${of}/deliveries?sate=failed`, undefined, 'sate'],
    ['GET', '/events?since=1', undefined, 'since'],
    ['GET', '/host_keys?x', undefined, 'x'],
    ['POST', `${of}/password?dry_run=1`, undefined, 'dry_run'],
    ['DELETE', `${of}/uploads/${id}?force=1`, undefined, 'force'],
  ];
  for (const [method, path, json, name] of wrong) {
    const answer = await api.send(method, path, json ? { json } : {});
    assert.deepEqual([answer.status, answer.json], [422, { errors: { [name]: ['is unknown'] } }], `${method} ${path}`);
  }
  const { json: access } = await api.send('GET', `${of}/access`);
  assert.partialDeepStrictEqual(access, { data: { suspended: false } }, 'nothing was changed');

  const notApplied = (name: string) => `299 - "not applied by this request: ${name}"`;
  const list = await api.send('GET', '/directories?exernal_id=none');
  assert.deepEqual([list.status, list.headers['warning']], [200, notApplied('exernal_id')]);
  assert.equal((await api.send('GET', '/directories?external_id=cust-42&limit=1')).headers['warning'], undefined);
  const uploads = await api.send('GET', `${of}/uploads?file=x`);
  assert.deepEqual([uploads.status, uploads.headers['warning']], [200, notApplied('file')]);
  const both = await api.send('POST', '/directories?a', { json: { directory: { name: 'A', slug: 'b' } } });
  assert.deepEqual([both.status, both.headers['warning']], [201, `${notApplied('slug')}, ${notApplied('a')}`]);
  const hostile = await api.send('GET', '/directories?%22%0d%0ax%3a=1');
  assert.deepEqual([hostile.status, hostile.headers['warning']], [200, notApplied('(a name that is not shown)')]);
});
