/** Each request has an id, a log line and a count, and each change an audit row. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hosted, sharedHosted } from '../support/hosted.ts';
import { scratch } from '../support/scratch.ts';

const shared = sharedHosted();

const lineOf = (line: string | undefined): Record<string, unknown> =>
  JSON.parse(line ?? '{}') as Record<string, unknown>;
const PUBLIC_KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH';

test('every response has an x-request-id, and the line of the request has the same, with what it was', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const answer = await api.send('GET', `/directories/${id}?external_id=in-the-query`);
  assert.match(String(answer.headers['x-request-id']), /^[\da-f]{18}-\w+$/);
  const { ms, time, level, ...line } = lineOf(api.requestLines.at(-1));
  assert.deepEqual(line, {
    request_id: answer.headers['x-request-id'],
    method: 'GET',
    route: '/api/v1/directories/:id',
    status: 200,
    account: api.tenant.accountId,
    key_id: api.tenant.keyId,
    msg: 'request',
  });
  assert.ok(Number(ms) > 0 && Number(time) > 0);
  assert.equal(level, 20, 'reads are debug lines');
  assert.equal(lineOf(api.requestLines.at(-2))['level'], 30, 'changes are info lines');
  assert.deepEqual(
    api.requests.map(({ method, route, status }) => [method, route, status]),
    [
      ['POST', '/api/v1/directories', 201],
      ['GET', '/api/v1/directories/:id', 200],
    ],
  );

  const unknown = await api.send('GET', '/nothing-here');
  const keyless = await api.send('GET', '/directories', { authorization: null });
  const misshapen = await api.send('GET', '/directories', { headers: { 'x-many': 'x', upgrade: 'h2c' } });
  for (const { headers } of [unknown, keyless, misshapen]) assert.ok(headers['x-request-id']);
  assert.equal(lineOf(api.requestLines.find((text) => text.includes('"status":404')))['route'], undefined);
  assert.equal(lineOf(api.requestLines.find((text) => text.includes('"status":401')))['level'], 20);
});

test('a failure is logged under the id that its response shows', async () => {
  const api = await shared();
  api.host.fail(new Error('the disk is on fire'));
  const { status, headers, text } = await api.send('POST', '/directories', { json: { directory: { name: 'x' } } });
  assert.equal(status, 500);
  assert.ok(!text.includes('fire'));
  const line = lineOf(api.log.find((entry) => entry.includes('a request failed')));
  assert.equal(line['request_id'], headers['x-request-id']);
});

test('the id of a request is kept from a trusted proxy alone, and only a sane one', async () => {
  using place = scratch();
  const ask = async (api: Awaited<ReturnType<typeof hosted>>, given: string): Promise<string> => {
    const { headers } = await api.send('GET', '//healthz', { headers: { 'x-request-id': given } });
    return String(headers['x-request-id']);
  };
  await using trusting = await hosted(place, { trustedProxies: ['127.0.0.1/32'] });
  assert.equal(await ask(trusting, 'from-nginx:7'), 'from-nginx:7');
  assert.match(await ask(trusting, 'two words'), /^[\da-f]{18}-/);
  assert.match(await ask(trusting, 'x'.repeat(65)), /^[\da-f]{18}-/);
  using other = scratch();
  await using strict = await hosted(other, { trustedProxies: ['10.0.0.0/8'] });
  assert.match(await ask(strict, 'from-nginx:7'), /^[\da-f]{18}-/);
});

test('each change has one audit row, with its request, its fields and no secret; what changed nothing has none', async () => {
  const api = await shared();
  const created = await api.directory({
    external_id: 'order-1',
    description: 'private words',
    metadata: { a: 'hidden' },
  });
  const path = `/directories/${created.id}`;
  const patch = (directory: object) => api.send('PATCH', path, { json: { directory } });
  const renamed = await patch({ name: 'Renamed', max_connections: 3 });
  await patch({ webhook_url: 'https://user:pw@hooks.example.com/T0KEN?key=S3CRET', metadata: { b: 'hidden' } });
  await patch({ name: 'Renamed' });
  await patch({ name: '' });
  await patch({ auth_mode: 'both', public_key: PUBLIC_KEY });
  await api.send('DELETE', `${path}/public_key`);
  const removed = await api.send('DELETE', path);

  const rows = await api.audit();
  const shown = rows.map(({ action, route, changes }) => [action, route, JSON.parse(changes) as object]);
  const fingerprint = 'SHA256:';
  const keyed = shown[3]?.[2] as { public_key_fingerprint: { to: string } };
  assert.ok(keyed.public_key_fingerprint.to.startsWith(fingerprint));
  const { to } = keyed.public_key_fingerprint;
  assert.deepEqual(shown, [
    [
      'create',
      'POST /api/v1/directories',
      {
        name: { from: null, to: 'Acme Corp' },
        description: {},
        external_id: { from: null, to: 'order-1' },
        metadata: {},
        max_connections: { from: null, to: 10 },
        slug: { from: null, to: 'acme-corp' },
        auth_mode: { from: null, to: 'password' },
      },
    ],
    [
      'update',
      'PATCH /api/v1/directories/:id',
      { name: { from: 'Acme Corp', to: 'Renamed' }, max_connections: { from: 10, to: 3 } },
    ],
    [
      'update',
      'PATCH /api/v1/directories/:id',
      { webhook_url: { from: null, to: 'https://hooks.example.com' }, metadata: {} },
    ],
    [
      'update',
      'PATCH /api/v1/directories/:id',
      { auth_mode: { from: 'password', to: 'both' }, public_key: {}, public_key_fingerprint: { from: null, to } },
    ],
    [
      'update',
      'DELETE /api/v1/directories/:id/public_key',
      { auth_mode: { from: 'both', to: 'password' }, public_key: {}, public_key_fingerprint: { from: to, to: null } },
    ],
    ['delete', 'DELETE /api/v1/directories/:id', {}],
  ]);
  for (const row of rows) {
    assert.deepEqual(
      [row.account_id, row.key_id, row.directory_id, row.username],
      [api.tenant.accountId, api.tenant.keyId, created.id, created.sftp_username],
    );
  }
  assert.equal(rows[1]?.request_id, renamed.headers['x-request-id']);
  assert.equal(rows.at(-1)?.request_id, removed.headers['x-request-id']);

  const everything = JSON.stringify([rows, api.log, api.requestLines]);
  const secrets = ['private words', 'hidden', 'T0KEN', 'S3CRET', 'user:pw', PUBLIC_KEY.split(' ')[1] ?? ''];
  const shownOnce = [created['sftp_password'], created['webhook_secret'], api.tenant.key].map(String);
  for (const secret of [...secrets, ...shownOnce]) assert.ok(!everything.includes(secret), secret);
});

test('a create that the disk refuses is audited together with its undoing', async () => {
  const api = await shared();
  api.host.fail(Object.assign(new Error('full'), { code: 'ENOSPC' }));
  assert.equal((await api.send('POST', '/directories', { json: { directory: { name: 'x' } } })).status, 507);
  const rows = await api.audit();
  assert.deepEqual(
    rows.map(({ action }) => action),
    ['create', 'undo-create'],
  );
  assert.equal(rows[0]?.request_id, rows[1]?.request_id);
});
