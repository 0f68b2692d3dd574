/** /api/v1/api_keys: the limits of a key, who may create and revoke keys, and how soon a revocation takes effect. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatMicros, SECOND } from '../../src/foundation/base/clock.ts';
import type { ApiAnswer, Send } from '../support/api-client.ts';
import { type Hosted, hosted } from '../support/hosted.ts';
import { scratch } from '../support/scratch.ts';
import { setClock } from '../support/set-clock.ts';
import { invited } from '../support/users.ts';

interface Key {
  readonly id: string;
  readonly key: string;
  readonly directories: string[] | null;
  readonly revoked_at: string | null;
}

async function created(api: Hosted, fields: object, send: Send = api.send): Promise<Key & { readonly send: Send }> {
  const answer = await send('POST', '/api_keys', { json: { name: 'made', role: 'admin', ...fields } });
  assert.equal(answer.status, 201, answer.text);
  const { data } = answer.json as { data: Key };
  return { ...data, send: api.client.as(data.key) };
}

const said = ({ status, json }: ApiAnswer): unknown => [status, (json as { error?: string } | undefined)?.error];

test('a key is made, shown once, listed, and revoked', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const answer = await api.send('POST', '/api_keys', { json: { name: 'nightly import', role: 'member' } });
  assert.equal(answer.headers['cache-control'], 'no-store');
  const { key, ...made } = (answer.json as { data: Record<string, unknown> }).data;
  assert.match(String(key), /^svc_live_\w{38}$/);
  const { id, inserted_at, ...rest } = made;
  assert.match(String(inserted_at), /Z$/);
  assert.deepEqual(rest, {
    name: 'nightly import',
    role: 'member',
    read_only: false,
    directories: null,
    expires_at: null,
    last_used_at: null,
    revoked_at: null,
  });
  const client = api.client.as(String(key));
  assert.equal((await client('GET', '/directories')).status, 200);
  assert.equal((await client('GET', '/api_keys')).status, 403, 'a member sees no keys');

  const list = await api.send('GET', '/api_keys');
  assert.ok(!list.text.includes(String(key)) && !list.text.includes('hash'));
  const [first] = (list.json as { data: Key[] }).data;
  assert.deepEqual([first?.id, first?.revoked_at], [id, null]);

  for (let i = 0; i < 2; i += 1) assert.equal((await api.send('DELETE', `/api_keys/${String(id)}`)).status, 204);
  assert.equal((await client('GET', '/directories')).status, 401);
  const audit = await api.database.db.selectFrom('audit').select(['action', 'key_id', 'changes']).execute();
  assert.deepEqual(
    audit.map(({ action, key_id }) => [action, key_id]),
    ['create-key', 'revoke-key'].map((action) => [action, api.tenant.keyId]),
  );
  assert.ok(audit.every(({ changes }) => !changes.includes(String(key))));
});

test('the list has pages', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const ids = [api.tenant.keyId];
  for (let i = 0; i < 4; i += 1) ids.unshift((await created(api, {})).id);
  const found: string[] = [];
  for (let path: string | undefined = '/api_keys?limit=2'; path !== undefined;) {
    const { json, headers } = await api.send('GET', path);
    found.push(...(json as { data: Key[] }).data.map(({ id }) => id));
    path = /<\/api\/v1([^>]+)>/.exec(String(headers['link']))?.[1];
  }
  assert.deepEqual(found, ids);
  const stranger = await api.account('business');
  assert.equal((await api.send('GET', `/api_keys?after=${stranger.keyId}`)).status, 422);
});

test('fields that are invalid for a key', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const stranger = await api.account('business');
  const foreign = await api.directory({}, stranger.send);
  const { id } = await api.directory();
  const wrong: [object, object][] = [
    [{ name: '' }, { name: ["can't be blank"] }],
    [{ role: 'owner' }, { role: ['is invalid'] }],
    [{ expires_at: 'soon' }, { expires_at: ['is invalid'] }],
    [{ expires_at: '2020-01-01T00:00:00Z' }, { expires_at: ['must be in the future'] }],
    [{ read_only: 'yes' }, { read_only: ['is invalid'] }],
    [{ directories: [] }, { directories: ['should have at least 1 item(s)'] }],
    [{ directories: 'all' }, { directories: ['is invalid'] }],
    [{ directories: [7] }, { directories: ['is invalid'] }],
    [{ directories: Array(101).fill(id) }, { directories: ['should have at most 100 item(s)'] }],
    [{ directories: [id, foreign.id] }, { directories: [`"${foreign.id}" is not a directory of the account`] }],
    [{ directories: ['a\0b'] }, { directories: [String.raw`"a\u0000b" is not a directory of the account`] }],
    [{ accountId: stranger.accountId }, { accountId: ['is unknown'] }],
  ];
  for (const [fields, errors] of wrong) {
    const { status, json } = await api.send('POST', '/api_keys', { json: { name: 'x', role: 'admin', ...fields } });
    assert.deepEqual([status, json], [422, { errors }]);
  }
  assert.equal(((await api.send('GET', '/api_keys')).json as { data: Key[] }).data.length, 1);
});

test('directories are named by id or by username, each once', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id, sftp_username } = await api.directory();
  const { directories } = await created(api, { directories: [sftp_username, id, sftp_username] });
  assert.deepEqual(directories, [id]);
});

test('a key expires at its time, and is then answered like an unknown one', async () => {
  using place = scratch();
  const clock = setClock();
  await using api = await hosted(place, { clock });
  const { id } = await api.directory();
  const key = await created(api, { expires_at: formatMicros(clock.now() + 10 * SECOND) });
  assert.equal((await key.send('PATCH', `/directories/${id}`, { json: { directory: { name: 'A' } } })).status, 200);
  clock.advance(10 * SECOND);
  const unknown = await api.client.as('svc_live_x')('GET', '/directories');
  assert.deepEqual(said(await key.send('GET', '/directories')), said(unknown));
});

test('a read-only key reads, and changes nothing', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id } = await api.directory();
  const key = await created(api, { read_only: true });
  assert.equal((await key.send('GET', `/directories/${id}`)).status, 200);
  assert.equal((await key.send('HEAD', `/directories`)).status, 200);
  assert.equal((await key.send('GET', '/api_keys')).status, 200);
  for (const name of api.routes.filter((route) => !route.startsWith('GET '))) {
    const [method = '', path = ''] = name.split(' ');
    const named = path
      .slice('/api/v1'.length)
      .replace(':id', id)
      .replaceAll(/:\w+(?:\{.+?\})?/g, id);
    assert.deepEqual(said(await key.send(method, named, { json: {} })), [403, 'This API key is read-only'], name);
  }
});

test('a key may revoke itself; the last key that can create keys stays while the dashboard has no admin', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id } = await api.directory();
  const other = await created(api, {});
  // None of these could make another key.
  await created(api, { role: 'member' });
  await created(api, { read_only: true });
  await created(api, { directories: [id] });
  assert.equal((await other.send('DELETE', `/api_keys/${other.id}`)).status, 204);
  assert.equal((await other.send('GET', '/directories')).status, 401);
  const last = await api.send('DELETE', `/api_keys/${api.tenant.keyId}`);
  assert.equal(last.status, 409);
  assert.match(last.text, /last key of an admin/);
  await invited(place, api.tenant.accountId);
  assert.equal((await api.send('DELETE', `/api_keys/${api.tenant.keyId}`)).status, 204);
});

test("another account's keys do not exist", async () => {
  using place = scratch();
  await using api = await hosted(place);
  const stranger = await api.account('business');
  assert.deepEqual(said(await api.send('DELETE', `/api_keys/${stranger.keyId}`)), [404, 'API key not found']);
  assert.equal((await stranger.send('GET', '/directories')).status, 200);
});

test('an Idempotency-Key makes one key', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const ask = () =>
    api.send('POST', '/api_keys', { json: { name: 'x', role: 'admin' }, headers: { 'idempotency-key': 'once' } });
  const [first, second] = [await ask(), await ask()];
  assert.deepEqual([second.text, second.headers['idempotency-replayed']], [first.text, 'true']);
  assert.equal(((await api.send('GET', '/api_keys')).json as { data: Key[] }).data.length, 2);
});
