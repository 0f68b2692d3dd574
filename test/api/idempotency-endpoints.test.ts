/** Every POST keeps its answer for an Idempotency-Key, and in the transaction of its change: neither is there without the other. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { type Hosted, hosted } from '../support/hosted.ts';
import { madeKeys } from '../support/made-keys.ts';
import { scratch } from '../support/scratch.ts';

interface Post {
  /** Makes ready what the request is about. Returns what stands for the path's parameters, by name. */
  readonly about?: (api: Hosted, id: string) => Promise<Record<string, string>>;
  readonly json?: unknown;
  /** It changes nothing of which an answer could be without. */
  readonly changesNothing?: true;
}

const POSTS: Readonly<Record<string, Post>> = {
  '/api/v1/directories': { json: { directory: { name: 'New' } } },
  '/api/v1/directories/{id}/password': {},
  '/api/v1/directories/{id}/public_keys': { json: { public_key: madeKeys(3)[0].line } },
};

async function place(path: string) {
  const own = scratch();
  const api = await hosted(own);
  const { id } = await api.directory();
  const more = await POSTS[path]?.about?.(api, id);
  const target = Object.entries({ id, ...more }).reduce(
    (text, [name, value]) => text.replace(`{${name}}`, value),
    path,
  );
  const { json } = POSTS[path] ?? {};
  return {
    api,
    post: () =>
      api.send('POST', target.replace('/api/v1', ''), {
        ...(json === undefined ? {} : { json }),
        headers: { 'idempotency-key': 'k' },
      }),
    /** All that the database holds, but for what time alone moves. */
    async state(): Promise<unknown> {
      const tables = ['directories', 'public_keys', 'audit', 'deliveries', 'kept_answers', 'unapplied'] as const;
      return Promise.all(tables.map((table) => api.database.db.selectFrom(table).selectAll().execute()));
    },
    async [Symbol.asyncDispose]() {
      await api[Symbol.asyncDispose]();
      own[Symbol.dispose]();
    },
  };
}

test('each of them is here', async () => {
  await using at = await place('/api/v1/directories');
  const { json } = await at.api.send('GET', '/openapi.json');
  const { paths } = json as { paths: Record<string, Record<string, unknown>> };
  const posts = Object.keys(paths).filter((path) => paths[path]?.['post']);
  assert.deepEqual(posts.toSorted(), Object.keys(POSTS).toSorted());
});

for (const [path, { changesNothing }] of Object.entries(POSTS)) {
  test(`POST ${path}: repeated, it gets the same answer and does nothing`, async () => {
    await using at = await place(path);
    const first = await at.post();
    assert.ok(first.status < 300, first.text);
    const after = await at.state();
    const again = await at.post();
    assert.deepEqual([again.status, again.text], [first.status, first.text]);
    assert.equal(again.headers['idempotency-replayed'], 'true');
    assert.deepEqual(await at.state(), after);
  });

  if (changesNothing) continue;
  test(`POST ${path}: what cannot be kept is not done`, async () => {
    await using at = await place(path);
    const { db } = at.api.database;
    await sql`create trigger no_answer before insert on kept_answers begin select raise(abort, 'as if'); end`.execute(
      db,
    );
    const before = await at.state();
    assert.equal((await at.post()).status, 500);
    assert.deepEqual(await at.state(), before);
    await sql`drop trigger no_answer`.execute(db);
    const { status, headers } = await at.post();
    assert.ok(status < 300);
    assert.equal(headers['idempotency-replayed'], undefined, 'it was done now');
  });
}
