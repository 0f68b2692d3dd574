/** …/files/ as a whole: placed and uploaded files are listed, fetched and removed by their paths. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import type { TestBerth, TestDirectory } from '../support/berth.ts';
import { dataOf } from '../support/field-sets.ts';
import { until } from '../support/poll.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

interface ShownFile {
  readonly path: string;
  readonly size_bytes: number;
  readonly state: string;
  readonly upload_id: string | null;
}

async function upload(berth: TestBerth, directory: TestDirectory, files: Record<string, string>): Promise<void> {
  const count = (await berth.uploads(directory)).length + Object.keys(files).length;
  {
    await using connection = await berth.connect(directory);
    const session = await sftpSession(connection);
    for (const [name, content] of Object.entries(files)) await session.put(name, content);
  }
  // What has a temporary name is recorded when its session has ended.
  await until('all are recorded', async () => (await berth.uploads(directory)).length === count);
}

test('files are listed, fetched in whole or part, and removed by their paths, however they got there', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const below = `/directories/${directory.id}/files`;
  const list = async (query = ''): Promise<ShownFile[]> => dataOf<ShownFile[]>(await berth.send('GET', below + query));
  assert.deepEqual(await list(), []);
  const made = await berth.send('PUT', `${below}/out%2Fprices%20%231.csv`, { body: 'placed' });
  assert.equal(made.status, 201);
  await upload(berth, directory, { 'orders.csv': 'uploaded', 'x.part': 'waits' });
  const { id: upload_id } = (await berth.uploads(directory)).find(({ filename }) => filename === 'orders.csv') ?? {};
  const files = await list();
  assert.deepEqual(
    files.map(({ path, size_bytes, state, upload_id: id }) => [path, size_bytes, state, id]),
    [
      ['orders.csv', 8, 'uploaded', upload_id],
      ['out/prices #1.csv', 6, 'placed', null],
      ['x.part', 5, 'uploaded', (await list('?prefix=x'))[0]?.upload_id],
    ],
  );

  const placed = await berth.send('GET', `${below}/out/prices%20%231.csv`);
  assert.deepEqual([placed.status, placed.text, placed.headers.etag], [200, 'placed', made.headers.etag]);
  const etag = String(made.headers.etag);
  const saved = await berth.send('GET', `${below}/out/prices%20%231.csv`, { headers: { 'if-none-match': etag } });
  assert.deepEqual([saved.status, saved.text], [304, '']);
  const head = await berth.send('HEAD', `${below}/orders.csv`);
  assert.deepEqual([head.status, head.text, head.headers['content-length']], [200, '', '8']);
  const part = await berth.send('GET', `${below}/orders.csv`, { headers: { range: 'bytes=2-4' } });
  assert.deepEqual([part.status, part.text], [206, 'loa']);
  for (const path of ['none', 'out', 'orders.csv/x', 'ORDERS.csv'])
    for (const method of ['GET', 'DELETE'])
      assert.equal((await berth.send(method, `${below}/${path}`)).status, 404, path);

  const replaced = await berth.send('PUT', `${below}/orders.csv`, { body: 'over' });
  assert.deepEqual([replaced.status, replaced.headers.warning], [200, `299 - "the upload ${upload_id} was replaced"`]);
  const stale = await berth.send('DELETE', `${below}/orders.csv`, { headers: { 'if-match': etag } });
  assert.equal(stale.status, 412);
  const own = { headers: { 'if-match': String(replaced.headers.etag) } };
  assert.equal((await berth.send('DELETE', `${below}/orders.csv`, own)).status, 204);
  assert.equal((await berth.send('DELETE', `${below}/out%2Fprices%20%231.csv`)).status, 204);
  assert.equal(existsSync(join(directory.files, 'out/prices #1.csv')), false);
  assert.deepEqual(
    (await list()).map(({ path }) => path),
    ['x.part'],
  );
  assert.equal(await berth.storage(directory), 5);
});

test('pages go by path; a file that a session writes is neither fetched nor removed', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const below = `/directories/${directory.id}/files`;
  const names = Array.from({ length: 7 }, (_, i) => `f${i}`);
  for (const name of names) assert.equal((await berth.send('PUT', `${below}/${name}`, { body: name })).status, 201);
  const seen: string[] = [];
  for (let path: string | undefined = `${below}?limit=3`; path !== undefined;) {
    const answer = await berth.send('GET', path);
    seen.push(...dataOf<ShownFile[]>(answer).map((file) => file.path));
    path = /^<\/api\/v1(.*)>; rel="next"$/.exec(String(answer.headers.link ?? ''))?.[1];
  }
  assert.deepEqual(seen, names);
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  const handle = await session.open('f3', 'r+');
  await session.write(handle, Buffer.from('x'), 0);
  await until('berth knows', async () => (await berth.send('DELETE', `${below}/f3`)).status === 409);
  assert.equal((await berth.send('GET', `${below}/f3`)).status, 409);
  await session.close(handle);
  await until('it is an upload now', async () => {
    const files = dataOf<ShownFile[]>(await berth.send('GET', below));
    return files.find(({ path }) => path === 'f3')?.state === 'uploaded';
  });
  assert.equal((await berth.send('GET', `${below}/f3`)).text, 'x3');
});

test('one request removes many uploads, and says which of them stay', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const other = await berth.directory();
  await upload(berth, directory, { a: '1', b: '2', c: '3', d: '4' });
  await upload(berth, other, { a: 'theirs' });
  const idOf = async (of: TestDirectory, name: string): Promise<string> =>
    (await berth.uploads(of)).find(({ filename }) => filename === name)?.id ?? '';
  const names = ['a', 'b', 'c', 'd'];
  const [a = '', b = '', c = '', d = ''] = await Promise.all(names.map((name) => idOf(directory, name)));
  const theirs = await idOf(other, 'a');
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  const handle = await session.open('c', 'r+');
  await session.write(handle, 'x');
  const remove = (...ids: string[]) =>
    berth.send('DELETE', `/directories/${directory.id}/uploads?ids=${ids.join(',')}`);
  const { status, json } = await remove(a, b, b, c, theirs);
  const gone = { status: 404, error: 'Upload not found' };
  assert.equal(status, 200);
  const { deleted, kept } = (json as { data: { deleted: string[]; kept: { id: string; status: number }[] } }).data;
  assert.deepEqual(deleted, [a, b]);
  assert.deepEqual(
    kept.map(({ id, status: each }) => [id, each]),
    [
      [c, 409],
      [theirs, 404],
    ],
  );
  const isThere = (name: string): boolean => existsSync(join(directory.files, name));
  // The session may still ask for them.
  await until('they have gone', () => !isThere('a') && !isThere('b'));
  assert.equal(isThere('d'), true);
  assert.equal(await idOf(other, 'a'), theirs, "another directory's file stays");
  const again = await berth.send('DELETE', `/directories/${directory.id}/uploads?ids=${a}&ids=${b}`);
  const both = [a, b].map((id) => ({ id, ...gone }));
  assert.deepEqual(dataOf(again), { deleted: [], kept: both }, 'again, with a parameter for each');
  const key = await berth.send('POST', '/api_keys', { json: { name: 'r', role: 'member', read_only: true } });
  const authorization = `Bearer ${(key.json as { data: { key: string } }).data.key}`;
  const refused = await berth.send('DELETE', `/directories/${directory.id}/uploads?ids=${d}`, { authorization });
  assert.equal(refused.status, 403);
  assert.equal(await idOf(directory, 'd'), d);
  await session.close(handle);
});

test('files arrive, and are removed, although somebody has removed the folder of files on their way', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const { transit } = pathsOf(berth.config);
  const file = `/directories/${directory.id}/files/a`;
  rmSync(transit, { recursive: true });
  assert.equal((await berth.send('PUT', file, { body: 'data' })).status, 201);
  await until('it is recorded', async () => (await berth.send('GET', file)).status === 200);
  rmSync(transit, { recursive: true });
  const { status, text } = await berth.send('DELETE', file);
  assert.deepEqual([status, text, readdirSync(directory.files)], [204, '', []]);
});
