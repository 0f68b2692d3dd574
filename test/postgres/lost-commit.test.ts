/** PostgreSQL commits a change, and its answer is lost on the way: a request that is repeated gets the response of the first. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hosted } from '../support/hosted.ts';
import { freshDatabase, postgresOnly, psql } from '../support/postgres.ts';
import { scratch } from '../support/scratch.ts';
import { gateway } from './gateway.ts';

test('a change whose commit is not confirmed is not made again for its Idempotency-Key', postgresOnly, async () => {
  await using parts = new AsyncDisposableStack();
  const database = freshDatabase();
  parts.defer(() => database.drop());
  const corner = parts.use(scratch({ BERTH_DATABASE_URL: '' }));
  const way = parts.use(await gateway(corner.dir));
  const place = parts.use(scratch({ BERTH_DATABASE_URL: way.throughIt(database.url) }));
  const api = parts.use(await hosted(place));
  const { id } = await api.directory();
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const requests: readonly [path: string, json: object, status: number][] = [
    ['/directories', { directory: { name: 'Acme' } }, 201],
    ['/api_keys', { name: 'nightly', role: 'member' }, 201],
    [`/directories/${id}/password`, {}, 200],
    [`/directories/${id}/links`, { for: 'upload', path: 'in/a', max_bytes: 1000, expires_at: until }, 201],
  ];
  const changes = (): number => Number(psql(database.url, 'select count(*) from audit'));
  for (const [path, json, expected] of requests) {
    const before = changes();
    way.loseCommitOf('kept_answers');
    const send = (): ReturnType<typeof api.send> =>
      api.send('POST', path, { json, headers: { 'idempotency-key': `once ${path}` } });
    const lost = await send();
    assert.equal(lost.status, 503, `${path}: ${lost.text}`);
    const { status, headers, text } = await send();
    assert.deepEqual([status, headers['idempotency-replayed']], [expected, 'true'], `${path}: ${text}`);
    assert.equal(changes() - before, 1, path);
  }
});
