/** Authentication (specification, "Authentication"): which keys are accepted, and how soon a change takes effect. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { type Kysely, sql } from 'kysely';
import { listAccounts, markDeleted } from '../../src/rules/accounts/accounts.ts';
import { generateKey } from '../../src/rules/keys/key-format.ts';
import type { Tables } from '../../src/foundation/db/schema.ts';
import { createDirectory } from '../../src/rules/directories/create.ts';
import { hosted } from '../support/hosted.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { onPostgres } from '../support/postgres.ts';
import { type Scratch, scratch } from '../support/scratch.ts';

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

test('401 on every endpoint, whatever else is wrong with the request', async () => {
  using place = scratch();
  await using api = await hosted(place);
  for (const [method, path] of [
    ['GET', '/directories'],
    ['POST', '/directories'],
    ['GET', '/directories/x'],
    ['PATCH', '/directories/x'],
    ['DELETE', '/directories/x'],
    ['GET', '/directories/x/uploads'],
    ['DELETE', '/directories/x/public_key'],
  ] as const) {
    assert.equal((await api.send(method, path, { authorization: null, body: '{' })).status, 401, `${method} ${path}`);
  }
});

test('401: a key revoked by another process is refused at the next request', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const other = await api.key(api.tenant.accountId, 'admin');
  assert.equal((await api.send('GET', '/directories')).status, 200);
  await berth(place, 'key', 'revoke', api.tenant.keyId);
  assert.equal((await api.send('GET', '/directories')).status, 401);
  assert.equal((await other('GET', '/directories')).status, 200, 'the other key of the account still works');
});

test('403: the plans without API access, in force at the next request after another process changes the plan', async () => {
  using place = scratch();
  await using api = await hosted(place);
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
  using place = scratch();
  await using api = await hosted(place);
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
  await assert.rejects(createDirectory(api.rules, accountId, { name: 'Late' }), { code: 'unauthenticated' });
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
  using place = scratch();
  await using api = await hosted(place);
  const dump = JSON.stringify(await api.database.db.selectFrom('api_keys').selectAll().execute());
  assert.ok(!dump.includes(api.tenant.key.slice('svc_live_'.length)));
});
