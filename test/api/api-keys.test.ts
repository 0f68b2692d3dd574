/** API keys: which are accepted (specification, "Authentication"), their limits, who may create and revoke them, and how soon a change takes effect. */
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { type Kysely, sql } from 'kysely';
import { messageOf } from '../../src/foundation/base/problems.ts';
import { formatMicros, SECOND } from '../../src/foundation/base/clock.ts';
import type { Tables } from '../../src/foundation/db/schema.ts';
import { listAccounts, markDeleted } from '../../src/rules/accounts/accounts.ts';
import { createDirectory } from '../../src/rules/directories/create.ts';
import { generateKey } from '../../src/rules/api-keys/authenticate.ts';
import type { ApiAnswer, Send } from '../support/api-client.ts';
import { type Api, hosted, sharedHosted } from '../support/hosted.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { onPostgres } from '../support/postgres.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { setClock } from '../support/set-clock.ts';
import { invited } from '../support/users.ts';

import assert from 'node:assert/strict';

const NO_TIME = messageOf(['not_a_time']);

const shared = sharedHosted();

const MAIN = new URL('../../src/main.ts', import.meta.url).pathname;

/** The command as another process. */
async function berth(place: Scratch, ...args: string[]): Promise<void> {
  await promisify(execFile)(process.execPath, [MAIN, ...args], { env: { ...nodeEnvironment, ...place.environment } });
}

/** Counts the queries made through it. */
function counting(onQuery: () => void): (reads: Kysely<Tables>) => Kysely<Tables> {
  return (reads) =>
    reads.withPlugin({
      transformQuery: ({ node }) => node,
      async transformResult({ result }) {
        onQuery();
        return result;
      },
    });
}

test('401: a missing, malformed, mistyped, foreign or unknown key, and all but the last without a query', async () => {
  using place = scratch();
  let queries = 0;
  await using api = await hosted(place, { authenticationReads: counting(() => (queries += 1)) });
  const { key } = api.tenant;
  const mistyped = key.slice(0, 20) + (key[20] === 'a' ? 'b' : 'a') + key.slice(21);
  const swapped = key.slice(0, -2) + key.at(-1) + key.at(-2);
  const headers = [
    null,
    '',
    'Bearer',
    'Bearer ',
    key,
    `Basic ${key}`,
    `Bearer ${key} ${key}`,
    `Bearer ${key}x`,
    `Bearer ${key.slice(0, -1)}`,
    `Bearer ${mistyped}`,
    ...(swapped === key ? [] : [`Bearer ${swapped}`]),
    `Bearer ${key.replace('svc_live_', 'svc_test_')}`,
    `Bearer ${generateKey('test')}`,
    `Bearer ${'x'.repeat(8000)}`,
  ];
  const refuse = async (authorization: string | null): Promise<void> => {
    const answer = await api.send('GET', '/directories', { authorization });
    assert.deepEqual(
      [answer.status, answer.json],
      [401, { error: 'Invalid or missing API key' }],
      String(authorization),
    );
    assert.equal(answer.headers['www-authenticate'], 'Bearer');
  };
  for (const authorization of headers) await refuse(authorization);
  assert.equal(queries, 0);
  await refuse(`Bearer ${generateKey('live')}`);
  assert.equal(queries, 1);

  assert.equal((await api.send('GET', '/directories')).status, 200);
  assert.equal(queries, 2, 'each request asks once');
});

test('401: a key revoked by another process is refused at the next request', async () => {
  const api = await shared();
  const { place } = api;
  const other = await api.key(api.tenant.accountId, 'admin');
  assert.equal((await api.send('GET', '/directories')).status, 200);
  await berth(place, 'key', 'revoke', api.tenant.keyId);
  assert.equal((await api.send('GET', '/directories')).status, 401);
  assert.equal((await other('GET', '/directories')).status, 200, 'the other key of the account still works');
});

test('403: the plans without API access, in force at the next request after another process changes the plan', async () => {
  const api = await shared();
  const { place } = api;
  for (const plan of ['free', 'starter'] as const) {
    const { send } = await api.account(plan);
    const { status, json } = await send('GET', '/directories/unknown');
    assert.equal(status, 403);
    assert.match((json as { error: string }).error, /^API access requires a Pro or Business plan\./);
  }
  await berth(place, 'account', 'set-plan', api.tenant.accountId, 'starter');
  assert.equal((await api.send('GET', '/directories')).status, 403);
  await berth(place, 'account', 'set-plan', api.tenant.accountId, 'pro');
  assert.equal((await api.send('GET', '/directories')).status, 200);
});

test('403: a changed role counts at the next request', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const change = () => api.send('PATCH', `/directories/${id}`, { json: { directory: { auth_mode: 'both' } } });
  assert.equal((await change()).status, 200);
  await api.database.db.updateTable('api_keys').set({ role: 'member' }).where('id', '=', api.tenant.keyId).execute();
  assert.equal((await change()).status, 403);
});

test('an account that is being deleted: its keys are refused, and a create that was under way makes nothing', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { accountId } = api.tenant;
  await markDeleted(api.rules, accountId, 'operator:alice');
  const { status, json } = await api.send('GET', '/directories');
  assert.deepEqual([status, json], [401, { error: 'Invalid or missing API key' }]);
  await assert.rejects(createDirectory(api.rules, { accountId }, { name: 'Late' }), { code: 'unauthenticated' });
  assert.deepEqual(await api.database.db.selectFrom('principals').selectAll().execute(), []);
  const account = await listAccounts(api.database);
  assert.deepEqual(account, []);
  for (const args of [
    ['key', 'create', accountId],
    ['key', 'list', accountId],
    ['account', 'set-plan', accountId, 'pro'],
  ])
    await assert.rejects(berth(place, ...args), /there is no account/);
});

/** What a write to the keys changes. */
const VERSION = onPostgres ? 'select xmin::text from api_keys' : 'pragma data_version';

test('last_used_at is kept without a write per request', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const row = () =>
    api.database.db.selectFrom('api_keys').selectAll().where('id', '=', api.tenant.keyId).executeTakeFirstOrThrow();
  const version = async (): Promise<unknown> => (await sql.raw(VERSION).execute(api.database.reads)).rows[0];
  const before = await version();
  for (let i = 0; i < 3; i += 1) await api.send('GET', '/directories');
  assert.deepEqual(await version(), before);
  assert.equal((await row()).last_used_at, null);
  await api.lastUsed.flush();
  const { last_used_at, inserted_at } = await row();
  assert.ok(last_used_at !== null && last_used_at > inserted_at);
  await api.lastUsed.flush();
  assert.equal((await row()).last_used_at, last_used_at);
});

test('a key is stored as its SHA-256 only', async () => {
  const api = await shared();
  const dump = JSON.stringify(await api.database.db.selectFrom('api_keys').selectAll().execute());
  assert.ok(!dump.includes(api.tenant.key.slice('svc_live_'.length)));
});

interface Key {
  readonly id: string;
  readonly key: string;
  readonly directories: string[] | null;
  readonly revoked_at: string | null;
}

async function created(api: Api, fields: object, send: Send = api.send): Promise<Key & { readonly send: Send }> {
  const answer = await send('POST', '/api_keys', { json: { name: 'made', role: 'admin', ...fields } });
  assert.equal(answer.status, 201, answer.text);
  const { data } = answer.json as { data: Key };
  return { ...data, send: api.client.as(data.key) };
}

const said = ({ status, json }: ApiAnswer): unknown => [status, (json as { error?: string } | undefined)?.error];

test('a key is made, shown once, listed, and revoked', async () => {
  const api = await shared();
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
  const audit = await api.audit();
  assert.deepEqual(
    audit.map(({ action, key_id }) => [action, key_id]),
    ['create-key', 'revoke-key'].map((action) => [action, api.tenant.keyId]),
  );
  assert.ok(audit.every(({ changes }) => !changes.includes(String(key))));
});

test('the list has pages', async () => {
  const api = await shared();
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
  const api = await shared();
  const stranger = await api.account('business');
  const foreign = await api.directory({}, stranger.send);
  const { id } = await api.directory();
  const wrong: [object, object][] = [
    [{ name: '' }, { name: ["can't be blank"] }],
    [{ role: 'owner' }, { role: ['is invalid'] }],
    [{ expires_at: 'soon' }, { expires_at: [NO_TIME] }],
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
  const api = await shared();
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
  const api = await shared();
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
  const api = await shared();
  const { place } = api;
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
  const api = await shared();
  const stranger = await api.account('business');
  assert.deepEqual(said(await api.send('DELETE', `/api_keys/${stranger.keyId}`)), [404, 'API key not found']);
  assert.equal((await stranger.send('GET', '/directories')).status, 200);
});
