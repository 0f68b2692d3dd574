/**
 * `Idempotency-Key`: a repeated request gets the first answer again, and is not carried out again. Every POST stores its response in the
 * transaction of its change, so neither exists without the other.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BerthError } from '../../src/foundation/base/errors.ts';
import { revokeKey } from '../../src/rules/api-keys/api-keys.ts';
import type { ApiAnswer, Send } from '../support/api-client.ts';
import { type Api, sharedHosted } from '../support/hosted.ts';
import { madeKeys } from '../support/made-keys.ts';
import { until } from '../support/poll.ts';
import { rawExchange } from '../support/raw-http.ts';
import { systemError } from '../support/recording-host.ts';
import { refuseWrites } from '../support/refused-writes.ts';
import { type WebhookPlace, webhookPlace } from './webhook-place.ts';

const shared = sharedHosted();

const ACME = { directory: { name: 'Acme', metadata: { token: 'nobody-may-read-this' } } };

const create = (send: Send, key: string, json: object = ACME): Promise<ApiAnswer> =>
  send('POST', '/directories', { json, headers: { 'idempotency-key': key } });

const names = async ({ send }: Pick<Api, 'send'>): Promise<string[]> =>
  ((await send('GET', '/directories')).json as { data: { name: string }[] }).data.map(({ name }) => name);

/** How many answers are kept for an account. */
async function kept({ database, tenant }: Api, accountId = tenant.accountId): Promise<number> {
  const rows = database.db.selectFrom('kept_answers').select('id').where('account_id', '=', accountId);
  return (await rows.execute()).length;
}

/** Compares the parts of the answers that have to be the same. */
function assertSame(repeated: ApiAnswer, first: ApiAnswer): void {
  assert.deepEqual([repeated.status, repeated.text], [first.status, first.text]);
  for (const name of ['location', 'content-type', 'cache-control', 'warning']) {
    assert.equal(repeated.headers[name], first.headers[name], name);
  }
  assert.equal(repeated.headers['idempotency-replayed'], 'true');
  assert.equal(first.headers['idempotency-replayed'], undefined);
}

test('the same key and request get the same answer, password and headers included; there is one directory', async () => {
  const api = await shared();
  const body = { directory: { name: 'Acme', webhook_url: 'https://example.com' } };
  const first = await create(api.send, 'order-1', body);
  assert.equal(first.status, 201);
  assert.match(String(first.headers.warning), /webhook_url/);
  for (let i = 0; i < 3; i += 1) assertSame(await create(api.send, 'order-1', body), first);
  assert.deepEqual(await names(api), ['Acme']);
  assert.equal(api.host.calls.length, 1, 'the host was asked once');
  const { id } = (first.json as { data: { id: string } }).data;
  await api.send('DELETE', `/directories/${id}`);
  assertSame(await create(api.send, 'order-1', body), first);
  assert.deepEqual(await names(api), [], 'an answer is that of its request, whatever came after');
});

test('another request with the key is refused: another body, another path', async () => {
  const api = await shared();
  await create(api.send, 'order-1');
  const spaced = { body: JSON.stringify(ACME, null, 1), headers: { 'content-type': 'application/json' } };
  const others = [
    create(api.send, 'order-1', { directory: { name: 'Other' } }),
    api.send('POST', '/directories?x=1', { json: ACME, headers: { 'idempotency-key': 'order-1' } }),
    api.send('POST', '/directories', { ...spaced, headers: { ...spaced.headers, 'idempotency-key': 'order-1' } }),
  ];
  for (const { status, json } of await Promise.all(others)) {
    assert.deepEqual([status, json], [422, { errors: { idempotency_key: ['was used for another request'] } }]);
  }
  assert.deepEqual(await names(api), ['Acme']);
});

test('each API key has Idempotency-Keys of its own; without one, and on other methods, nothing is kept', async () => {
  const api = await shared();
  const second = await api.key(api.tenant.accountId, 'admin');
  const other = await api.account('business');
  const answers = [await create(api.send, 'k'), await create(second, 'k'), await create(other.send, 'k')];
  assert.deepEqual(new Set(answers.map(({ text }) => text)).size, 3);
  assertSame(await create(second, 'k'), answers[1] as ApiAnswer);
  await api.send('POST', '/directories', { json: ACME });
  await api.send('POST', '/directories', { json: ACME });
  assert.equal((await names(api)).length, 4);
  const [{ id } = { id: '' }] = ((await other.send('GET', '/directories')).json as { data: { id: string }[] }).data;
  for (const name of ['Once', 'Twice']) {
    const headers = { 'idempotency-key': 'k' };
    const patched = await other.send('PATCH', `/directories/${id}`, { json: { directory: { name } }, headers });
    assert.equal((patched.json as { data: { name: string } }).data.name, name);
  }
  assert.deepEqual([await kept(api), await kept(api, other.accountId)], [2, 1]);
  await revokeKey(api.rules, { accountId: other.accountId }, other.keyId);
  assert.equal((await create(other.send, 'k')).status, 401, 'a revoked key opens nothing');
});

test('a key has 1 to 255 printable ASCII characters, and is there once', async () => {
  const api = await shared();
  const wrong: [string, string][] = [
    ['', "can't be blank"],
    ['x'.repeat(256), 'should be at most 255 character(s)'],
    ['a\tb', 'is invalid'],
    ['caf\u00e9', 'is invalid'],
  ];
  for (const [key, message] of wrong) {
    const { status, json } = await create(api.send, key);
    assert.deepEqual([status, json], [422, { errors: { idempotency_key: [message] } }], JSON.stringify(key));
  }
  assert.deepEqual(await names(api), []);
  for (const key of ['~', 'x'.repeat(255), '"quoted, with a space"']) {
    const first = await create(api.send, key);
    assert.equal(first.status, 201);
    assertSame(await create(api.send, key), first);
  }
  const body = JSON.stringify(ACME);
  const { answers } = await rawExchange(
    api,
    [
      'POST /api/v1/directories HTTP/1.1',
      'Host: localhost',
      `Authorization: Bearer ${api.tenant.key}`,
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
      'Idempotency-Key: one',
      'Idempotency-Key: two',
      '',
      body,
    ].join('\r\n'),
  );
  assert.deepEqual(
    answers.map(({ status }) => status),
    [400],
  );
});

test('ten at once: one is done, the others learn that it is in flight, and then get its answer', async (t) => {
  const api = await shared();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const { apply } = api.host;
  t.mock.method(api.host, 'apply', async (...given: Parameters<typeof apply>) => {
    await released;
    await apply(...given);
  });
  const attempts = Array.from({ length: 10 }, () => create(api.send, 'order-1'));
  const settled = new Set<ApiAnswer>();
  for (const attempt of attempts) void attempt.then((answer) => settled.add(answer));
  await until('nine are answered', () => settled.size === 9);
  for (const { status, json, headers } of settled) {
    const error = 'A request with this Idempotency-Key is still in progress';
    assert.deepEqual([status, json, headers['retry-after']], [409, { error }, '1']);
  }
  release();
  const first = (await Promise.all(attempts)).find(({ status }) => status === 201);
  assert.ok(first);
  for (let i = 0; i < 10; i += 1) assertSame(await create(api.send, 'order-1'), first);
  assert.deepEqual(await names(api), ['Acme']);
});

test('refusals are not kept: the request is tried again with the same key', async () => {
  const api = await shared();
  assert.equal((await create(api.send, 'k', { directory: { name: ' ' } })).status, 422);
  assert.equal((await create(api.send, 'k', {})).status, 422);
  const headers = { 'idempotency-key': 'k' };
  assert.equal((await api.send('POST', '/directories', { body: '{}', headers })).status, 415);
  assert.equal((await api.send('POST', '/directories', { body: 'x'.repeat(65_537), headers })).status, 413);
  assert.equal((await api.send('POST', '/nowhere', { json: ACME, headers })).status, 404);
  const limited = await api.account('pro');
  for (let i = 0; i < 25; i += 1) await create(limited.send, `fill-${i}`);
  assert.equal((await create(limited.send, 'k')).status, 422);
  const [{ id } = { id: '' }] = ((await limited.send('GET', '/directories')).json as { data: { id: string }[] }).data;
  await limited.send('DELETE', `/directories/${id}`);
  for (const { send } of [api, limited]) {
    const first = await create(send, 'k');
    assert.equal(first.status, 201);
    assertSame(await create(send, 'k'), first);
  }
});

test('a create that a full disk undoes leaves no answer; the same key then makes the directory', async () => {
  const api = await shared();
  api.host.fail(systemError('ENOSPC'));
  assert.equal((await create(api.send, 'k')).status, 507);
  assert.equal((await create(api.send, 'k')).status, 507);
  assert.equal(await kept(api), 0);
  api.host.fail(undefined);
  const first = await create(api.send, 'k');
  assert.equal(first.status, 201);
  assertSame(await create(api.send, 'k'), first);
  assert.deepEqual(await names(api), ['Acme']);
});

test('a create whose undo fails stays in flight until it is undone: nobody gets its answer', async () => {
  const api = await shared();
  const { db } = api.database;
  const allowUndo = await refuseWrites(db, 'update of deleted_at on directories');
  const allowRemoval = await refuseWrites(db, 'delete on directories');
  api.host.fail(systemError('ENOSPC'));
  assert.equal((await create(api.send, 'k')).status, 507);
  api.host.fail(undefined);
  assert.equal(await kept(api), 1, 'it could not be removed');
  assert.equal((await create(api.send, 'k')).status, 409);
  await allowUndo();
  await allowRemoval();
  let first: ApiAnswer | undefined;
  await until('it can be tried again', async () => (first = await create(api.send, 'k')).status === 201);
  assert.ok(first);
  assertSame(await create(api.send, 'k'), first);
  assert.deepEqual(await names(api), ['Acme']);
});

test('any sequence of keys and requests: a key gives what it gave first', async () => {
  for (let seed = 1; seed <= 12; seed += 1) {
    const api = await shared();
    const known = new Map<string, { body: string; answer: ApiAnswer }>();
    let made = 0;
    let state = seed;
    const below = (limit: number): number => {
      state = (state * 48_271) % 2_147_483_647;
      return state % limit;
    };
    for (let i = 0; i < 40; i += 1) {
      const [key, json] = [`key-${below(4)}`, { directory: { name: ['one', 'two', ' '][below(3)] } }];
      const answer = await create(api.send, key, json);
      const before = known.get(key);
      if (!before) {
        assert.equal(answer.status, json.directory.name === ' ' ? 422 : 201);
        if (answer.status !== 201) continue;
        known.set(key, { body: JSON.stringify(json), answer });
        made += 1;
      } else if (before.body === JSON.stringify(json)) assertSame(answer, before.answer);
      else assert.equal(answer.status, 422, `seed ${seed}, request ${i}`);
    }
    assert.equal((await names(api)).length, made, `seed ${seed}`);
  }
});

test('a create whose node is away is repeated with the answer of the node that has it in the end', async (t) => {
  const api = await shared();
  const { placement, host } = api.rules;
  const choose: typeof placement.choose = async (_tx, tried = []) => ({
    node: tried.length === 0 ? 'away' : placement.here,
    sftp_host: tried.length === 0 ? 'away.example.com' : 'here.example.com',
    sftp_port: 22,
  });
  t.mock.method(placement, 'choose', choose);
  const { apply } = host;
  t.mock.method(host, 'apply', async (...given: Parameters<typeof apply>) => {
    if (given[0].node === 'away') throw new BerthError('home_unavailable', 'The node does not answer');
    await apply(...given);
  });
  const first = await create(api.send, 'k');
  assert.equal(first.status, 201, first.text);
  assert.match(first.text, /here\.example\.com/);
  const again = await create(api.send, 'k');
  assertSame(again, first);
  const { answer, bytes } = await api.database.db
    .selectFrom('kept_answers')
    .innerJoin('kept_answer_totals', 'kept_answer_totals.account_id', 'kept_answers.account_id')
    .select(['answer', 'bytes'])
    .where('kept_answers.account_id', '=', api.tenant.accountId)
    .executeTakeFirstOrThrow();
  assert.equal(bytes, answer.length);
});

/** It sends webhooks. */
const sending = sharedHosted({ dispatches: true });

interface Post {
  /** Prepares the target of the request. Returns the values of the path's parameters, by name. */
  readonly about?: (own: WebhookPlace) => Promise<Record<string, string>>;
  readonly json?: unknown;
  /** It changes nothing, so there is no state to compare. */
  readonly changesNothing?: true;
}

const POSTS: Readonly<Record<string, Post>> = {
  '/api/v1/api_keys': { json: { name: 'A program', role: 'member' } },
  '/api/v1/directories': { json: { directory: { name: 'New' } } },
  '/api/v1/directories/{id}/password': {},
  '/api/v1/directories/{id}/public_keys': { json: { public_key: madeKeys(3)[0].line } },
  '/api/v1/directories/{id}/webhook_secret': { json: { activate: false } },
  '/api/v1/directories/{id}/links': {
    json: { for: 'download', path: 'x', expires_at: new Date(Date.now() + 3_600_000).toISOString() },
  },
  '/api/v1/webhook/secret': { json: { activate: false } },
  '/api/v1/directories/{id}/webhook/test': { changesNothing: true },
  '/api/v1/directories/{id}/deliveries/{delivery_id}/replay': {
    about: async (own) => ({ delivery_id: (await own.addFinished(1))[0] ?? '' }),
  },
  '/api/v1/directories/{id}/deliveries/replay': {
    about: async (own) => ({ count: String((await own.addFinished(3)).length) }),
    json: { since: '2020-01-01T00:00:00Z' },
  },
  '/api/v1/directories/{id}/partial/{file_id}/announce': {
    about: async (own) => ({ file_id: await own.addPartial('half.csv') }),
  },
  '/api/v1/directories/{id}/uploads/{upload_id}/announce': {
    about: async (own) => ({ upload_id: await own.addFile('report.csv') }),
  },
};

async function place(path: string) {
  const own = await webhookPlace(await (path.endsWith('/test') ? sending : shared)());
  const { api, id } = own;
  const more = await POSTS[path]?.about?.(own);
  const target = Object.entries({ id, ...more }).reduce(
    (text, [name, value]) => text.replace(`{${name}}`, value),
    path,
  );
  const { json } = POSTS[path] ?? {};
  return {
    api,
    /** How many webhooks have arrived. */
    received: () => own.target.requests.length,
    post: () =>
      api.send('POST', target.replace('/api/v1', ''), {
        ...(json === undefined ? {} : { json }),
        headers: { 'idempotency-key': 'k' },
      }),
    /** All rows as text, except values that change with time. */
    async state(): Promise<unknown> {
      const tables = [
        'api_keys',
        'directories',
        'public_keys',
        'account_webhooks',
        'audit',
        'deliveries',
        'kept_answers',
        'unapplied',
      ] as const;
      const rows = await Promise.all(tables.map((table) => api.database.db.selectFrom(table).selectAll().execute()));
      const text = (row: object): string =>
        JSON.stringify(row, (name, value: unknown) => (name === 'last_used_at' ? undefined : value));
      // PostgreSQL moves a row that it updates.
      return rows.map((some) => some.map(text).toSorted());
    },
    [Symbol.asyncDispose]: () => own[Symbol.asyncDispose](),
  };
}

test('every POST endpoint is covered', async () => {
  await using at = await place('/api/v1/directories');
  const { json } = await at.api.send('GET', '/openapi.json');
  const { paths } = json as { paths: Record<string, Record<string, unknown>> };
  const posts = Object.keys(paths).filter((path) => paths[path]?.['post']);
  assert.deepEqual(posts.toSorted(), Object.keys(POSTS).toSorted());
});

for (const [path, { changesNothing }] of Object.entries(POSTS)) {
  test(`POST ${path}: a repetition gets the same answer and changes nothing`, async () => {
    await using at = await place(path);
    const first = await at.post();
    assert.ok(first.status < 300, first.text);
    const [after, received] = [await at.state(), at.received()];
    const again = await at.post();
    assert.deepEqual([again.status, again.text], [first.status, first.text]);
    assert.equal(again.headers['idempotency-replayed'], 'true');
    assert.deepEqual([await at.state(), at.received()], [after, received]);
  });

  if (changesNothing) continue;
  test(`POST ${path}: a change rolls back if its response cannot be stored`, async () => {
    await using at = await place(path);
    const { db } = at.api.database;
    const before = await at.state();
    const allow = await refuseWrites(db, 'insert on kept_answers');
    const { status: refused } = await at.post();
    await allow();
    assert.equal(refused, 500);
    assert.deepEqual(await at.state(), before);
    const { status, headers } = await at.post();
    assert.ok(status < 300);
    assert.equal(headers['idempotency-replayed'], undefined, 'the request was carried out now');
  });
}
