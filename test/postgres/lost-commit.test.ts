/** PostgreSQL commits a change, and its answer is lost on the way: a request that is repeated gets the response of the first. */
import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { startBerth } from '../support/berth.ts';
import { hosted } from '../support/hosted.ts';
import { put, uploadLink } from '../support/links.ts';
import { until } from '../support/poll.ts';
import { freshDatabase, postgresOnly, psql } from '../support/postgres.ts';
import { scratch } from '../support/scratch.ts';
import { sftpSession } from '../support/sftp-session.ts';
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
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const requests: readonly [path: string, json: object, status: number][] = [
    ['/directories', { directory: { name: 'Acme' } }, 201],
    ['/api_keys', { name: 'nightly', role: 'member' }, 201],
    [`/directories/${id}/password`, {}, 200],
    [`/directories/${id}/links`, { for: 'upload', path: 'in/a', max_bytes: 1000, expires_at }, 201],
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

test(
  'a file whose removal is not confirmed is removed, and does not come back as a new upload',
  postgresOnly,
  async () => {
    await using parts = new AsyncDisposableStack();
    const database = freshDatabase();
    parts.defer(() => database.drop());
    const corner = parts.use(scratch({ BERTH_DATABASE_URL: '' }));
    const way = parts.use(await gateway(corner.dir));
    const place = parts.use(scratch({ BERTH_DATABASE_URL: way.throughIt(database.url) }));
    const berth = parts.use(await startBerth(place));
    const directory = await berth.directory();
    const remove = async (): Promise<number> => {
      await until('it is an upload', async () => (await berth.uploads(directory)).length === 1);
      const [upload] = await berth.uploads(directory);
      way.loseCommitOf('remove-file');
      return (await berth.send('DELETE', `/directories/${directory.id}/uploads/${upload?.id}`)).status;
    };
    // The sender of a single-use link can try again.
    const link = await uploadLink(berth, directory, 'by-link', { once: true });
    way.loseCommitOf('placements');
    assert.equal((await put(berth, link, 'data')).status, 503);
    writeFileSync(join(directory.files, 'by-hand'), 'data');
    assert.equal(await remove(), 204);
    {
      await using connection = await berth.connect(directory);
      await (await sftpSession(connection)).put('by-session', 'data');
      assert.equal(await remove(), 503);
    }
    await until('no file is left', () => readdirSync(directory.files).length === 0);
    await wait(4000);
    assert.deepEqual(await berth.uploads(directory), []);
    assert.equal((await put(berth, link, 'data')).status, 201);
    assert.equal(Number(psql(database.url, "select count(*) from transfers where event = 'uploaded'")), 3);
  },
);
