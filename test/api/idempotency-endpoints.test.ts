/** Every POST stores its response for an Idempotency-Key in the transaction of its change, so neither exists without the other. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { madeKeys } from '../support/made-keys.ts';
import { refuseWrites } from '../support/refused-writes.ts';
import { type WebhookPlace, webhookPlace } from './webhook-place.ts';

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
  '/api/v1/directories/{id}/uploads/{upload_id}/announce': {
    about: async (own) => ({ upload_id: await own.addFile('report.csv') }),
  },
};

async function place(path: string) {
  const own = await webhookPlace({ dispatches: path.endsWith('/test') });
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
    /** All rows, except values that change with time. */
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
      return Promise.all(tables.map((table) => api.database.db.selectFrom(table).selectAll().execute()));
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
    const allow = await refuseWrites(db, 'insert on kept_answers');
    const before = await at.state();
    assert.equal((await at.post()).status, 500);
    assert.deepEqual(await at.state(), before);
    await allow();
    const { status, headers } = await at.post();
    assert.ok(status < 300);
    assert.equal(headers['idempotency-replayed'], undefined, 'the request was carried out now');
  });
}
