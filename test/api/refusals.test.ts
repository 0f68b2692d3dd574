/**
 * Every endpoint refuses in the same order: 401, 429, 403 for the plan, 404, 403 for the role, then errors of the body. A
 * route without a line in `ENDPOINTS` fails here.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { lstatSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileStat } from '../../src/arrivals/uploads/record/file-stat.ts';
import type { ApiAnswer, Send } from '../support/api-client.ts';
import { type Api, hosted, sharedHosted } from '../support/hosted.ts';
import { madeKeys } from '../support/made-keys.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { fillSqlite } from '../support/refused-writes.ts';
import { scratch } from '../support/scratch.ts';
import { setClock } from '../support/set-clock.ts';
import { ENDPOINTS, type Expected } from './endpoints.ts';

const shared = sharedHosted();

const UNKNOWN = '00000000-0000-4000-8000-000000000000';
const NEEDS_PLAN = 'API access requires a Pro or Business plan. Change the plan of the account to use it.';

interface Endpoint extends Expected {
  readonly name: string;
  readonly method: string;
  /** Below `/api/v1`, with the names of its parameters. */
  readonly path: string;
  readonly isJson: boolean;
}

/** The endpoints of the routes that there are. */
function endpointsOf(api: Api): Endpoint[] {
  return api.routes.map((name) => {
    const [method = '', path = ''] = name.split(' ');
    const expected = ENDPOINTS[name];
    assert.ok(expected, `${name} is not in test/api/endpoints.ts`);
    return { ...expected, name, method, path: path.slice('/api/v1'.length), isJson: expected.wrongBodies.length > 0 };
  });
}

/** The path with that directory in it; what else it names is unknown. */
function at({ path }: Endpoint, directory: string): string {
  return path
    .replace(':id', directory)
    .replace('*path', 'in/report.csv')
    .replaceAll(/:\w+(?:\{.+?\})?/g, UNKNOWN);
}

function refused({ status, json }: ApiAnswer, expected: number, error: unknown, what: string): void {
  assert.deepEqual([status, json], [expected, { error }], what);
}

/** A body that no endpoint could use. */
const BROKEN = { body: '{', headers: { 'content-type': 'text/plain' } };

test('every line of the table is a route', async () => {
  const api = await shared();
  assert.deepEqual(Object.keys(ENDPOINTS).toSorted(), [...api.routes].toSorted());
});

test('401 comes before everything', async () => {
  const api = await shared();
  const { id } = await api.directory();
  for (const endpoint of endpointsOf(api)) {
    for (const authorization of [null, 'Bearer svc_live_unknown', `Basic ${api.tenant.key}`]) {
      const answer = await api.send(endpoint.method, at(endpoint, id), { authorization, ...BROKEN });
      refused(answer, 401, 'Invalid or missing API key', endpoint.name);
      assert.equal(answer.headers['www-authenticate'], 'Bearer', endpoint.name);
    }
  }
});

test('429 comes next for every key; without a key it stays 401', async () => {
  using place = scratch();
  await using api = await hosted(place, {
    clock: setClock(),
    rateLimit: 1,
    unauthenticated: { limit: 1, clock: () => 0 },
  });
  const { send: poor } = await api.account('free');
  const member = await api.key(api.tenant.accountId, 'member');
  const nobody: Send = (method, path) => api.send(method, path, { authorization: null });
  const callers: Send[] = [api.send, member, poor];
  for (let i = 0; i < 3; i += 1) await nobody('GET', '/unknown');
  for (const send of callers) await send('GET', '/directories');
  for (const endpoint of endpointsOf(api)) {
    refused(await nobody(endpoint.method, at(endpoint, UNKNOWN)), 401, 'Invalid or missing API key', endpoint.name);
    for (const send of callers) {
      refused(await send(endpoint.method, at(endpoint, UNKNOWN), BROKEN), 429, 'Rate limit exceeded', endpoint.name);
    }
  }
});

test('403 for the plan comes before the target is looked up', async () => {
  const api = await shared();
  const { id } = await api.directory();
  for (const plan of ['free', 'starter'] as const) {
    await api.database.db.updateTable('accounts').set({ plan }).where('id', '=', api.tenant.accountId).execute();
    for (const endpoint of endpointsOf(api)) {
      for (const directory of [id, UNKNOWN]) {
        refused(await api.send(endpoint.method, at(endpoint, directory), BROKEN), 403, NEEDS_PLAN, endpoint.name);
      }
    }
  }
});

test("404 for another account's objects comes before the checks of role and body, and reveals nothing", async () => {
  const api = await shared();
  const stranger = await api.account('business');
  const foreign = await api.directory({}, stranger.send);
  const gone = await api.directory();
  assert.equal((await api.send('DELETE', `/directories/${gone.id}`)).status, 204);
  const member = await api.key(api.tenant.accountId, 'member');
  for (const endpoint of endpointsOf(api).filter(({ path }) => path.includes(':id'))) {
    for (const send of [api.send, member]) {
      for (const directory of [foreign.id, gone.id, UNKNOWN, 'x', '%00', 'x'.repeat(300)]) {
        const answer = await send(endpoint.method, at(endpoint, directory), BROKEN);
        refused(answer, 404, 'Directory not found', `${endpoint.name} of ${directory}`);
      }
    }
  }
  const { status } = await stranger.send('GET', `/directories/${foreign.id}`);
  assert.equal(status, 200, 'it is still there');
});

test('404 for objects of another directory, even of the same account, and nothing changes', async () => {
  const api = await shared();
  const stranger = await api.account('business');
  const { id } = await api.directory();
  const others = [await api.directory(), await api.directory({}, stranger.send)];
  for (const other of others) await furnish(api, other.id);
  const before = await contents(api);
  for (const endpoint of endpointsOf(api)) {
    const [, name = ''] = /:(upload_id|delivery_id|fingerprint)\b/.exec(endpoint.path) ?? [];
    for (const other of name === '' ? [] : others) {
      const path = at(endpoint, id).replace(UNKNOWN, thingIn(other.id));
      const { status, text } = await api.send(endpoint.method, path, { json: endpoint.right });
      assert.equal(status, 404, `${endpoint.name}: ${text}`);
      assert.doesNotMatch(text, /Directory|no longer exists/, endpoint.name);
    }
  }
  assert.deepEqual(await contents(api), before);
});

test('403 without the admin role comes before the body, and changes nothing', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const member = await api.key(api.tenant.accountId, 'member');
  const before = await contents(api);
  for (const endpoint of endpointsOf(api).filter(({ role }) => role === 'admin')) {
    for (const request of [{}, BROKEN, { json: endpoint.right }]) {
      refused(await member(endpoint.method, at(endpoint, id), request), 403, 'Not authorized', endpoint.name);
    }
  }
  assert.deepEqual(await contents(api), before);
});

test('members may do what is not for admins', async () => {
  const api = await shared();
  for (const endpoint of endpointsOf(api).filter(({ role }) => role === 'any')) {
    const { id, sftp_username } = await api.directory();
    mkdirSync(join(api.place.config.jailDir, sftp_username, 'files'), { recursive: true });
    const member = await api.key(api.tenant.accountId, 'member');
    const path = `${at(endpoint, id)}${endpoint.query ?? ''}`;
    const { status, text } = await member(endpoint.method, path, { json: endpoint.right });
    const isServed = status < 300 || (status === 404 && !text.includes('Directory')) || text.includes('webhook_url');
    assert.ok(isServed, `${endpoint.name}: ${status} ${text}`);
  }
});

test('every change is in the audit, under its route', async () => {
  const api = await shared();
  const unaudited: string[] = [];
  for (const endpoint of endpointsOf(api).filter(({ method }) => method !== 'GET')) {
    const named = await furnished(api);
    const { status, text } = await api.send(endpoint.method, within(endpoint, named), { json: endpoint.right });
    assert.ok(status < 300, `${endpoint.name}: ${status} ${text}`);
    if (!(await api.audit()).some(({ route }) => route === endpoint.name)) unaudited.push(endpoint.name);
  }
  assert.deepEqual(unaudited, []);
});

test('507 for every change on a full disk, in the same words', sqliteOnly, async () => {
  const api = await shared();
  for (const endpoint of endpointsOf(api).filter(({ method }) => method !== 'GET')) {
    const named = await furnished(api);
    const makeRoom = await fillSqlite(api.database.db, 'audit');
    const answer = await api.send(endpoint.method, within(endpoint, named), { json: endpoint.right });
    refused(answer, 507, 'Not enough storage space', endpoint.name);
    await makeRoom();
  }
});

/** The path with what stands for each parameter. */
function within({ path, query }: Endpoint, named: Readonly<Record<string, string>>): string {
  const whole = path.replaceAll(/:(\w+)(?:\{.+?\})?/g, (_, name: string) => encodeURIComponent(named[name] ?? ''));
  return whole + (query?.replace(UNKNOWN, named['upload_id'] ?? '') ?? '');
}

/** A directory with one of everything that a path can name. Returns what stands for each parameter. */
async function furnished(api: Api): Promise<Readonly<Record<string, string>>> {
  const { db } = api.database;
  const { id, sftp_username } = await api.directory();
  mkdirSync(join(api.place.config.jailDir, sftp_username, 'files'), { recursive: true });
  const make = async (method: string, path: string, request: Parameters<Send>[2]): Promise<string> => {
    const { status, json, text } = await api.send(method, path, request);
    assert.ok(status < 300, `${method} ${path}: ${text}`);
    return (json as { data: { id: string } }).data.id;
  };
  await make('PATCH', `/directories/${id}`, { json: { directory: { webhook_url: 'http://127.0.0.1:9/' } } });
  const [{ line, fingerprint }] = madeKeys(1);
  await make('POST', `/directories/${id}/public_keys`, { json: { public_key: line } });
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const link = { for: 'upload', path: 'in/', max_bytes: 1, expires_at };
  const link_id = await make('POST', `/directories/${id}/links`, { json: link });
  const key_id = await make('POST', '/api_keys', { json: { name: 'A program', role: 'member' } });
  const addFile = async (file_id: string, name: string, state: 'uploaded' | 'partial'): Promise<string> => {
    const file = join(api.place.config.jailDir, sftp_username, 'files', name);
    writeFileSync(file, 'x');
    const seen = { path: Buffer.from(name), ...fileStat(lstatSync(file)), uploaded_at: api.rules.clock.now() };
    await db
      .insertInto('files')
      .values({ id: file_id, directory_id: id, ...seen, state, source: 'log', session_pid: null })
      .execute();
    return file_id;
  };
  const upload_id = await addFile(thingIn(id), 'report.csv', 'uploaded');
  const file_id = await addFile(randomUUID(), 'half.csv', 'partial');
  await deliver(api, id, api.rules.clock.now());
  return { id, upload_id, file_id, delivery_id: upload_id, fingerprint, link_id, key_id, path: 'report.csv' };
}

test('a wrong JSON body: 415, 413, 400, 422, and nothing is changed', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const before = await contents(api);
  for (const endpoint of endpointsOf(api).filter(({ isJson }) => isJson)) {
    const path = at(endpoint, id);
    const status = async (request: Parameters<Send>[2]): Promise<number> =>
      (await api.send(endpoint.method, path, request)).status;
    const json = { 'content-type': 'application/json' };
    assert.equal(await status({ body: '{}', headers: { 'content-type': 'text/plain' } }), 415, endpoint.name);
    assert.equal(await status({ body: 'x'.repeat(65_537), headers: json }), 413, endpoint.name);
    assert.equal(await status({ body: '{"a":', headers: json }), 400, endpoint.name);
    for (const wrong of [...endpoint.wrongBodies, null, 7, 'text', []]) {
      await invalid(api.send(endpoint.method, path, { json: wrong }), `${endpoint.name} ${JSON.stringify(wrong)}`);
    }
  }
  assert.deepEqual(await contents(api), before);
});

test('a 422 has berth’s own words, whatever is in the body', async () => {
  const api = await shared();
  const { id } = await api.directory();
  for (const endpoint of endpointsOf(api).filter(({ isJson }) => isJson)) {
    for (const json of variantsOf(endpoint.right)) {
      const answer = await api.send(endpoint.method, at(endpoint, id), { json });
      const what = `${endpoint.name} ${JSON.stringify(json)}`;
      assert.ok(answer.status < 500, `${what}: ${answer.text}`);
      if (answer.status === 422) ownWords(answer, what);
    }
  }
});

/** The same JSON without a member, with a value of another type in place of each one, and with wrong items in its arrays. */
function* variantsOf(right: unknown): Generator<unknown, void, void> {
  const wrong = [null, 7, 1.5, true, 'x', '', [], {}, [null], ['a', 'b', 'c', 'd', 'e', 7], [{}], { x: 1 }];
  if (typeof right !== 'object' || right === null) return;
  if (Array.isArray(right)) for (const item of wrong) yield [...right, ...right, ...right, item];
  for (const [name, value] of Object.entries(right)) {
    if (Array.isArray(right)) break;
    const { [name]: _, ...others } = right as Record<string, unknown>;
    yield others;
    for (const each of [...wrong, ...variantsOf(value)]) yield { ...others, [name]: each };
  }
}

test('422 for errors in the path or the query', async () => {
  const api = await shared();
  const { id } = await api.directory();
  for (const endpoint of endpointsOf(api)) {
    for (const query of endpoint.wrongQueries ?? []) {
      await invalid(api.send(endpoint.method, `${at(endpoint, id)}?${query}`), `${endpoint.name}?${query}`);
    }
    for (const path of endpoint.wrongPaths ?? []) {
      await invalid(api.send(endpoint.method, `/directories/${id}${path}`), `${endpoint.method} ${path}`);
    }
  }
});

test('422 for an invalid Idempotency-Key, on every POST', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const before = await contents(api);
  for (const endpoint of endpointsOf(api).filter(({ method }) => method === 'POST')) {
    for (const key of ['', 'x'.repeat(256), 'ü']) {
      const request = { json: endpoint.right, headers: { 'idempotency-key': key } };
      await invalid(api.send('POST', at(endpoint, id), request), `${endpoint.name} with the key ${key}`);
    }
  }
  assert.deepEqual(await contents(api), before);
});

/** A 422 that names fields, with sentences for each. */
async function invalid(asked: Promise<ApiAnswer>, what: string): Promise<void> {
  const answer = await asked;
  assert.equal(answer.status, 422, `${what}: ${answer.text}`);
  ownWords(answer, what);
}

/** Each message is meaningful, and none is valibot's default. */
function ownWords({ json, text }: ApiAnswer, what: string): void {
  const { errors } = json as { errors: Record<string, string[]> };
  const messages = Object.values(errors);
  assert.ok(messages.length > 0 && messages.every(({ length }) => length > 0), `${what}: ${text}`);
  for (const message of messages.flat())
    assert.doesNotMatch(message, /^$|Expected|Invalid|received/, `${what}: ${text}`);
}

/** The id of the upload and of the delivery in a directory, and what its key is found by. */
const thingIn = (directory: string): string => directory.replace(/^......../, '00000000');

/** Gives a directory an upload, a delivery and a key. */
async function furnish({ database }: Api, directory_id: string): Promise<void> {
  const { db } = database;
  const id = thingIn(directory_id);
  const file = {
    path: Buffer.from('a'),
    size_bytes: 1,
    state: 'uploaded',
    uploaded_at: 1,
    inode: 1,
    mtime: 1,
  } as const;
  await db
    .insertInto('files')
    .values({ id, directory_id, ...file, source: 'log', session_pid: null })
    .execute();
  const line = 'ssh-ed25519 AAAA';
  const key = { type: 'ssh-ed25519', comment: null, line, inserted_at: 1, last_used_at: null };
  await db
    .insertInto('public_keys')
    .values({ directory_id, fingerprint: `SHA256:${id.replaceAll('-', '+')}`, ...key })
    .execute();
  await deliver({ database }, directory_id, 2);
}

/** Gives a directory a delivery that has failed. */
async function deliver(
  { database: { db } }: Pick<Api, 'database'>,
  directory_id: string,
  finished_at: number,
): Promise<void> {
  const id = thingIn(directory_id);
  const found = db.selectFrom('directories').select('account_id').where('id', '=', directory_id);
  const { account_id } = await found.executeTakeFirstOrThrow();
  const delivery = {
    url: 'http://x/',
    destination: 'x',
    body: Buffer.from('{}'),
    state: 'failed',
    attempts: 4,
  } as const;
  const times = { inserted_at: 1, due_at: null, finished_at, replay_at: null };
  await db
    .insertInto('deliveries')
    .values({ id, directory_id, account_id, upload_id: id, ...delivery, ...times })
    .execute();
}

/** Everything that a request could change. */
async function contents({ database }: Api): Promise<unknown> {
  const { db } = database;
  return {
    directories: await db.selectFrom('directories').selectAll().execute(),
    files: await db.selectFrom('files').selectAll().execute(),
    keys: await db.selectFrom('public_keys').selectAll().execute(),
    deliveries: await db.selectFrom('deliveries').selectAll().execute(),
    audit: await db.selectFrom('audit').selectAll().execute(),
  };
}
