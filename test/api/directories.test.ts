/** A directory is shown, listed, changed in its basic fields and deleted, with what follows in the background. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mock, test } from 'node:test';
import type { Kysely } from 'kysely';
import { createLog } from '../../src/foundation/base/log.ts';
import type { Database } from '../../src/foundation/db/open.ts';
import type { Tables } from '../../src/foundation/db/schema.ts';
import { deleteDirectory } from '../../src/rules/directories/delete.ts';
import { applyPending } from '../../src/rules/directories/pending-apply.ts';
import { createRowRemoval } from '../../src/rules/directories/row-removal.ts';
import { dataOf, FULL_FIELDS, LIST_FIELDS, TIMESTAMP } from '../support/field-sets.ts';
import { hosted, sharedHosted } from '../support/hosted.ts';
import { until } from '../support/poll.ts';
import { systemError } from '../support/recording-host.ts';
import { scratch } from '../support/scratch.ts';

const shared = sharedHosted();

test('200: exactly eighteen fields, in order, without the password', async () => {
  const api = await shared();
  const { sftp_password, ...made } = await api.directory({ metadata: { a: 1 } });
  const answer = await api.send('GET', `/directories/${made.id}`);
  assert.equal(answer.status, 200);
  assert.equal(answer.headers['content-type'], 'application/json');
  assert.deepEqual(Object.keys(dataOf(answer)), FULL_FIELDS);
  assert.deepEqual(answer.json, { data: made });
  assert.ok(!answer.text.includes(String(sftp_password)));
  const head = await api.send('HEAD', `/directories/${made.id}`);
  assert.deepEqual([head.status, head.text], [200, '']);
});

test('200: no response but the create response has the password, and none has the hash or the key', async () => {
  const api = await shared();
  const { id, sftp_password } = await api.directory();
  const row = await api.database.db
    .selectFrom('directories')
    .select('password_hash')
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  const answers = [
    await api.send('GET', '/directories'),
    await api.send('GET', `/directories/${id}`),
    await api.send('PATCH', `/directories/${id}`, { json: { directory: { name: 'B' } } }),
    await api.send('PATCH', `/directories/${id}`, { json: { directory: { auth_mode: 'both' } } }),
    await api.send('DELETE', `/directories/${id}/public_key`),
    await api.send('GET', `/directories/${id}/uploads`),
  ];
  for (const { status, text } of answers) {
    assert.equal(status, 200);
    for (const secret of [String(sftp_password), row.password_hash]) assert.ok(!text.includes(secret), text);
  }
  assert.ok(!api.log.join('').includes(String(sftp_password)));
  assert.ok(!api.log.join('').includes(api.tenant.key));
});

type Rows = { id: string; name: string; external_id: string | null; inserted_at: string }[];

test('200: own directories, newest first, with exactly seven fields', async () => {
  const api = await shared();
  assert.deepEqual((await api.send('GET', '/directories')).json, { data: [] });
  const stranger = await api.account('pro');
  await api.directory({ name: 'theirs' }, stranger.send);
  for (const name of ['one', 'two', 'three']) await api.directory({ name, external_id: `x-${name}` });
  const answer = await api.send('GET', '/directories');
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.link, undefined);
  const rows = dataOf<Rows>(answer);
  assert.deepEqual(
    rows.map(({ name }) => name),
    ['three', 'two', 'one'],
  );
  for (const row of rows) {
    assert.deepEqual(Object.keys(row), LIST_FIELDS);
    assert.match(row.inserted_at, TIMESTAMP);
  }
});

test('200: external_id filters by the exact value', async () => {
  const api = await shared();
  const ids = ['order 7', 'order 7', 'ORDER 7', '%', null];
  for (const external_id of ids) await api.directory({ external_id });
  const find = async (query: string): Promise<(string | null)[]> =>
    dataOf<Rows>(await api.send('GET', `/directories?external_id=${query}`)).map(({ external_id }) => external_id);
  assert.deepEqual(await find('order%207'), ['order 7', 'order 7']);
  assert.deepEqual(await find('order+7'), ['order 7', 'order 7']);
  assert.deepEqual(await find('%25'), ['%']);
  assert.deepEqual(await find(''), []);
  assert.deepEqual(await find('null'), []);
});

test('200: limit and after walk through the list by the Link header', async () => {
  const api = await shared();
  for (let i = 0; i < 7; i += 1) await api.directory({ name: `n${i}`, external_id: i % 2 === 0 ? 'even' : 'odd' });
  const walk = async (start: string): Promise<string[][]> => {
    const pages: string[][] = [];
    for (let path: string | undefined = start; path !== undefined;) {
      const answer = await api.send('GET', path);
      pages.push(dataOf<Rows>(answer).map(({ name }) => name));
      path = /^<\/api\/v1(.*)>; rel="next"$/.exec(String(answer.headers.link ?? ''))?.[1];
    }
    return pages;
  };
  assert.deepEqual(await walk('/directories?limit=3'), [['n6', 'n5', 'n4'], ['n3', 'n2', 'n1'], ['n0']]);
  assert.deepEqual(await walk('/directories?limit=7'), [['n6', 'n5', 'n4', 'n3', 'n2', 'n1', 'n0']]);
  assert.deepEqual(await walk('/directories?external_id=even&limit=2'), [
    ['n6', 'n4'],
    ['n2', 'n0'],
  ]);
});

test('the Link header leads on when the directories of a page are deleted, and their rows have gone', async () => {
  const api = await shared();
  const names = ['n0', 'n1', 'n2', 'n3', 'n4'];
  for (const name of names) await api.directory({ name });
  const seen: string[] = [];
  for (let path: string | undefined = '/directories?limit=2'; path !== undefined;) {
    const answer = await api.send('GET', path);
    assert.equal(answer.status, 200, answer.text);
    for (const { id, name } of dataOf<Rows>(answer)) {
      seen.push(name);
      assert.equal((await api.send('DELETE', `/directories/${id}`)).status, 204);
      const row = api.database.reads.selectFrom('directories').select('id').where('id', '=', id);
      await until('its row has gone', async () => (await row.execute()).length === 0);
    }
    path = /^<\/api\/v1(.*)>; rel="next"$/.exec(String(answer.headers.link ?? ''))?.[1];
  }
  assert.deepEqual(seen.sort(), names);
});

test('422: a limit that is not a number from 1 to 1000, and an after that no row has', async () => {
  const api = await shared();
  const theirs = await api.directory({}, (await api.account('pro')).send);
  const cases: [string, object][] = [
    ['limit=0', { limit: ['must be greater than or equal to 1'] }],
    ['limit=1001', { limit: ['must be less than or equal to 1000'] }],
    ['limit=-1', { limit: ['must be greater than or equal to 1'] }],
    ['limit=two', { limit: ['is invalid'] }],
    ['after=nobody', { after: ['is invalid'] }],
    [`after=soon.${theirs.id}`, { after: ['is invalid'] }],
    ['after=1795212999364712.nobody', { after: ['is invalid'] }],
    [`after=${theirs.id}`, { after: ['is invalid'] }],
  ];
  for (const [query, errors] of cases) {
    const { status, json } = await api.send('GET', `/directories?${query}`);
    assert.deepEqual([status, json], [422, { errors }], query);
  }
});

test('200: every basic field changes, slug and username never do', async () => {
  const api = await shared();
  const { sftp_password: _, ...made } = await api.directory();
  const directory = {
    name: 'Brand New',
    description: 'd',
    webhook_url: 'http://example.com/hook?x=1',
    external_id: 'e',
    metadata: { a: [1] },
    max_connections: 3,
  };
  const ignored = { slug: 'x', sftp_username: 'x', retention_days: 9, storage_bytes: 9, sftp_password: 'x', id: 'x' };
  const answer = await api.send('PATCH', `/directories/${made.id}`, {
    json: { directory: { ...directory, ...ignored } },
  });
  assert.equal(answer.status, 200);
  const { updated_at, ...rest } = dataOf(answer);
  assert.deepEqual(Object.keys(dataOf(answer)), FULL_FIELDS);
  assert.deepEqual({ ...rest, updated_at: made['updated_at'] }, { ...made, ...directory });
  assert.ok(String(updated_at) > String(made['updated_at']));
  assert.equal(api.host.served.get(made.sftp_username)?.max_connections, 3, 'the new cap has reached the host');
  assert.deepEqual((await api.send('GET', `/directories/${made.id}`)).json, answer.json);
});

test('200: null clears what may be empty; what changes nothing leaves updated_at', async () => {
  const api = await shared();
  const { id } = await api.directory({ description: 'd', external_id: 'e', metadata: { a: 1 } });
  const change = async (directory: object) =>
    dataOf(await api.send('PATCH', `/directories/${id}`, { json: { directory } }));
  await change({ webhook_url: 'https://example.com' });
  const cleared = await change({ description: null, external_id: null, metadata: null, webhook_url: null });
  const { description, external_id, metadata, webhook_url, updated_at } = cleared;
  assert.deepEqual(
    { description, external_id, metadata, webhook_url },
    { description: null, external_id: null, metadata: {}, webhook_url: null },
  );
  assert.equal((await change({ description: null, name: 'Acme Corp' }))['updated_at'], updated_at);
  assert.equal((await change({}))['updated_at'], updated_at);
});

test('422: each field says what is wrong with it, and nothing of the request is applied', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const cases: [object, object][] = [
    [{ name: '' }, { name: ["can't be blank"] }],
    [{ name: null }, { name: ["can't be blank"] }],
    [{ name: 'x'.repeat(101) }, { name: ['should be at most 100 character(s)'] }],
    [{ webhook_url: 'ftp://example.com' }, { webhook_url: ['must start with https:// or http://'] }],
    [{ webhook_url: '' }, { webhook_url: ['must start with https:// or http://'] }],
    [{ webhook_url: 'https://' }, { webhook_url: ['is invalid'] }],
    [{ webhook_url: 'https://exa mple.com' }, { webhook_url: ['is invalid'] }],
    [{ webhook_url: 'https://user:%zz@example.com' }, { webhook_url: ['is invalid'] }],
    [{ webhook_url: 7 }, { webhook_url: ['is invalid'] }],
    [
      { webhook_url: `https://example.com/${'x'.repeat(2048)}` },
      { webhook_url: ['should be at most 2048 character(s)'] },
    ],
    [{ max_connections: 0, description: 'applied?' }, { max_connections: ['must be greater than or equal to 1'] }],
    [{ max_connections: null }, { max_connections: ["can't be blank"] }],
    [{ metadata: 'x' }, { metadata: ['is invalid'] }],
    [{ external_id: 'x'.repeat(256) }, { external_id: ['should be at most 255 character(s)'] }],
  ];
  const before = await api.send('GET', `/directories/${id}`);
  for (const [directory, errors] of cases) {
    const { status, json } = await api.send('PATCH', `/directories/${id}`, { json: { directory } });
    assert.deepEqual([status, json], [422, { errors }]);
  }
  assert.deepEqual((await api.send('GET', `/directories/${id}`)).json, before.json);
});

test('507: what the disk refuses is remembered and applied when there is room', async () => {
  const api = await shared();
  const { id } = await api.directory();
  api.host.fail(systemError('ENOSPC'));
  const { status } = await api.send('PATCH', `/directories/${id}`, { json: { directory: { max_connections: 2 } } });
  assert.equal(status, 507);
  const mark = api.database.db.selectFrom('unapplied').select('directory_id').where('directory_id', '=', id);
  assert.equal((await mark.execute()).length, 1);
});

async function addFiles({ db }: Database, directory_id: string, count: number): Promise<void> {
  const row = { directory_id, size_bytes: 1, state: 'uploaded', inode: 1, mtime: 1, source: 'log' } as const;
  await db.transaction().execute(async (tx) => {
    for (let i = 0; i < count; i += 1) {
      const file = { ...row, id: randomUUID(), path: Buffer.from(`f${i}`), uploaded_at: i, session_pid: null };
      await tx.insertInto('files').values(file).execute();
    }
  });
}

async function addDelivery({ db }: Database, directory_id: string, account_id: string): Promise<void> {
  const id = randomUUID();
  const times = { inserted_at: 1, due_at: 1, finished_at: null };
  const content = { url: 'http://x', destination: 'x', body: Buffer.from('{}') };
  await db
    .insertInto('deliveries')
    .values({ id, directory_id, account_id, state: 'queued', attempts: 1, ...times, ...content })
    .execute();
  const outcome = { finished_at: null, status: null, latency_us: null, error: null, response: null };
  await db
    .insertInto('attempts')
    .values({ delivery_id: id, number: 1, started_at: 1, ...outcome })
    .execute();
}

async function rowsIn({ db }: Database, table: 'files' | 'deliveries' | 'attempts' | 'directories' | 'unapplied') {
  const { n } = await db
    .selectFrom(table)
    .select(({ fn }) => fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow();
  return n;
}

test('204: gone for every endpoint at once, taken from the host, rows removed, the name and UID kept', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const [doomed, spared] = [await api.directory(), await api.directory()];
  for (const { id } of [doomed, spared]) {
    await addFiles(api.database, id, 2500);
    await addDelivery(api.database, id, api.tenant.accountId);
  }
  const answer = await api.send('DELETE', `/directories/${doomed.id}`);
  assert.deepEqual([answer.status, answer.text], [204, '']);
  assert.ok(!api.host.served.has(doomed.sftp_username));
  for (const method of ['GET', 'PATCH', 'DELETE']) {
    assert.equal((await api.send(method, `/directories/${doomed.id}`)).status, 404, method);
  }
  assert.deepEqual(
    dataOf<{ id: string }[]>(await api.send('GET', '/directories')).map(({ id }) => id),
    [spared.id],
  );

  await api.rules.removal.idle();
  await applyPending(api.rules);
  assert.equal(await rowsIn(api.database, 'files'), 2500);
  assert.equal(await rowsIn(api.database, 'deliveries'), 1);
  assert.equal(await rowsIn(api.database, 'attempts'), 1);
  assert.equal(await rowsIn(api.database, 'directories'), 1);
  assert.equal(await rowsIn(api.database, 'unapplied'), 0);
  const principals = await api.database.db.selectFrom('principals').select('username').execute();
  assert.ok(principals.some(({ username }) => username === doomed.sftp_username));
});

test('the next start completes a deletion that a stop has interrupted', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id, sftp_username } = await api.directory();
  await addFiles(api.database, id, 1500);
  const stopped = createRowRemoval({ database: api.database, log: createLog('silent'), host: api.host });
  await stopped.close();
  const { database } = api.rules;
  await deleteDirectory({ ...api.rules, removal: stopped }, { accountId: api.tenant.accountId, id });
  assert.equal(await rowsIn(database, 'files'), 1500);

  api.host.calls.length = 0;
  const failed = await applyPending(api.rules);
  assert.equal(failed, 0);
  assert.deepEqual(api.host.calls, [`remove ${sftp_username}`]);
  await api.rules.removal.idle();
  assert.equal(await rowsIn(database, 'files'), 0);
  assert.equal(await rowsIn(database, 'directories'), 0);
});

test('the next start applies a change that a stop has interrupted; if it fails, the start after that does', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id, sftp_username } = await api.directory();
  api.host.fail(systemError('ENOSPC'));
  await api.send('PATCH', `/directories/${id}`, { json: { directory: { auth_mode: 'public_key' } } });
  assert.equal(api.host.served.get(sftp_username)?.auth_mode, 'password');
  const repeat = () => applyPending(api.rules);
  assert.equal(await repeat(), 1);
  assert.equal(await rowsIn(api.database, 'unapplied'), 1);
  api.host.fail(undefined);
  assert.equal(await repeat(), 0);
  assert.equal(api.host.served.get(sftp_username)?.auth_mode, 'public_key');
  assert.equal(await rowsIn(api.database, 'unapplied'), 0);
});

/** Calls `run` with the text of each statement. */
function watchStatements(db: Kysely<Tables>, run: (sql: string) => void): void {
  const executor = db.getExecutor();
  const provide = executor.provideConnection.bind(executor);
  const watched = new WeakSet<object>();
  mock.method(executor, 'provideConnection', (use: Parameters<typeof provide>[0]) =>
    provide((connection) => {
      if (!watched.has(connection)) {
        watched.add(connection);
        const execute = connection.executeQuery.bind(connection);
        connection.executeQuery = (query) => {
          run(query.sql);
          return execute(query);
        };
      }
      return use(connection);
    }),
  );
}

test('a PATCH reads the key and the directory once before the change, and once more in its transaction', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id } = await api.directory();
  const reads: string[] = [];
  const watch = (side: string) => (sql: string) => {
    const [, table] = /^select .*? from "(api_keys|directories)"/.exec(sql) ?? [];
    if (table !== undefined) reads.push(`${table} ${side}`);
  };
  watchStatements(api.database.reads, watch('before'));
  watchStatements(api.database.db, watch('inside'));
  for (const directory of [{ name: 'B' }, { auth_mode: 'both' }]) {
    reads.length = 0;
    assert.equal((await api.send('PATCH', `/directories/${id}`, { json: { directory } })).status, 200);
    assert.deepEqual(reads, ['api_keys before', 'directories before', 'api_keys inside', 'directories inside']);
  }
});
