/**
 * Files that the API puts into a directory, and uploads that it hands out and removes, while customers use SFTP; and …/files/ as a
 * whole: placed and uploaded files are listed, fetched and removed by their paths.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import {
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { afterLatecomers, startBerth, type TestBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { runHere } from '../support/command-line.ts';
import { dataOf } from '../support/field-sets.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

function put(berth: TestBerth, { id }: TestDirectory, path: string, body: string | Buffer) {
  return berth.send('PUT', `/directories/${id}/files/${path}`, { body });
}

/** Files on their way into a directory or out of it. */
const inTransit = (berth: TestBerth): string[] => readdirSync(join(berth.config.jailDir, '.berth', 'transit'));

interface ShownFile {
  readonly path: string;
  readonly size_bytes: number;
  readonly state: string;
  readonly upload_id: string | null;
}

async function putAll(berth: TestBerth, directory: TestDirectory, files: Record<string, string>): Promise<void> {
  const count = (await berth.uploads(directory)).length + Object.keys(files).length;
  {
    await using connection = await berth.connect(directory);
    const session = await sftpSession(connection);
    for (const [name, content] of Object.entries(files)) await session.put(name, content);
  }
  // What has a temporary name is recorded when its session has ended.
  await until('all are recorded', async () => (await berth.uploads(directory)).length === count);
}

test('a file that the API placed is only for the customer to fetch: no webhook and no upload, even after a restart', async () => {
  await using berth = await shared();
  const { place } = berth;
  const directory = await berth.directory();
  const created = await put(berth, directory, 'reports/2026/a%20b.csv', 'data');
  assert.deepEqual([created.status, created.json], [201, { data: { path: 'reports/2026/a b.csv', size_bytes: 4 } }]);
  const file = join(directory.files, 'reports/2026/a b.csv');
  const uid = statSync(directory.files).uid;
  for (const [path, mode] of [
    [file, 0o644],
    [join(file, '..'), 0o755],
    [join(file, '../..'), 0o755],
  ] as const) {
    const stats = statSync(path);
    assert.deepEqual([stats.uid, stats.gid, stats.mode & 0o7777], [uid, uid, mode], path);
  }
  assert.equal(await berth.storage(directory), 4, 'it is in force once it is answered');
  const replaced = await put(berth, directory, 'reports/2026/a%20b.csv', 'other data');
  assert.deepEqual([replaced.status, await berth.storage(directory)], [200, 10]);
  const fetched = join(place.dir, 'fetched');
  await sftp(place.dir, directory.login, [
    `get "reports/2026/a b.csv" ${fetched}`,
    'rename "reports/2026/a b.csv" done',
  ]);
  assert.equal(readFileSync(fetched, 'utf8'), 'other data');
  await berth.stop();
  await berth.start();
  await berth.service().covered;
  await put(berth, directory, 'empty', '');
  await afterLatecomers(berth);
  assert.deepEqual(await berth.uploads(directory), []);
  assert.equal(berth.receiver.requests.length, 0);
  assert.equal(await berth.storage(directory), 10);
  assert.deepEqual(inTransit(berth), []);
  const { stdout } = await runHere(place.environment, 'audit', '--directory', directory.id, '--json');
  assert.match(stdout, /put-file/);
});

test('a placed file that the customer changes is an upload: overwritten, appended to, or written under its name', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await put(berth, directory, 'over', 'data');
  await put(berth, directory, 'more', 'data');
  await session.put('over', 'their data');
  const handle = await session.open('more', 'a');
  await session.write(handle, '+');
  await session.close(handle);
  const announced = [webhookOf(await berth.receiver.next()), webhookOf(await berth.receiver.next())];
  assert.deepEqual(announced.map(({ filename, size_bytes }) => `${filename} ${size_bytes}`).toSorted(), [
    'more 5',
    'over 10',
  ]);

  // The rename wins over a writer: the old file loses its name, and nothing is torn.
  const writing = await session.open('both', 'w');
  await session.write(writing, 'customer');
  const answer = await put(berth, directory, 'both', 'service');
  assert.equal(answer.status, 200);
  await session.write(writing, ' and more', 8);
  await session.close(writing);
  assert.equal(readFileSync(join(directory.files, 'both'), 'utf8'), 'service');
  await until('it is recorded', async () => (await berth.storage(directory)) === 5 + 10 + 7);
  assert.equal((await berth.uploads(directory)).length, 2);
});

test('a receiver fetches an upload and acknowledges it: the file and its row go, and a repetition is 404', async () => {
  await using berth = await shared();
  const { place } = berth;
  const directory = await berth.directory();
  const content = randomBytes(300_000);
  writeFileSync(join(place.dir, 'report.bin'), content);
  await sftp(place.dir, directory.login, ['put report.bin']);
  await berth.receiver.next();
  const [upload] = await berth.uploads(directory);
  const path = `/directories/${directory.id}/uploads/${upload?.id}`;
  const fetched = await berth.send('GET', `${path}/content`, { headers: { range: 'bytes=299990-' } });
  assert.deepEqual([fetched.status, fetched.headers['content-range']], [206, 'bytes 299990-299999/300000']);
  const answers = await Promise.all([berth.send('DELETE', path), berth.send('DELETE', path)]);
  assert.deepEqual(answers.map(({ status }) => String(status)).toSorted(), ['204', '404']);
  assert.equal(existsSync(join(directory.files, 'report.bin')), false);
  assert.deepEqual([await berth.uploads(directory), await berth.storage(directory)], [[], 0]);
  assert.equal((await berth.send('GET', `${path}/content`)).status, 404);
  assert.deepEqual(inTransit(berth), []);
  const { stdout } = await runHere(place.environment, 'transfers', '--event', 'removed', '--json');
  assert.match(stdout, /report\.bin/);
  const audit = await runHere(place.environment, 'audit', '--directory', directory.id, '--json');
  assert.match(audit.stdout, /remove-file/);
  await afterLatecomers(berth);
  assert.equal(berth.receiver.requests.length, 1);
});

test('a file that was moved or removed is 404, and its row follows', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.put('f', 'data');
  await berth.receiver.next();
  const [upload] = await berth.uploads(directory);
  const path = `/directories/${directory.id}/uploads/${upload?.id}`;
  renameSync(join(directory.files, 'f'), `${directory.files}-f`);
  const { status, json } = await berth.send('DELETE', path);
  assert.deepEqual([status, json], [404, { error: 'The file no longer exists' }]);
  renameSync(`${directory.files}-f`, join(directory.files, 'g'));
  await until('it is known where it is', async () => (await berth.uploads(directory))[0]?.filename === 'g');
  assert.equal((await berth.send('DELETE', path)).status, 204);
  assert.deepEqual(await berth.uploads(directory), []);
  connection.client.end();
  await until('the file has gone', () => readdirSync(directory.files).length === 0);
  assert.equal(berth.receiver.requests.length, 1);
});

test('409: an upload that is being written again, or has been replaced, is neither sent nor removed', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.put('f', 'data');
  await berth.receiver.next();
  const [upload] = await berth.uploads(directory);
  const path = `/directories/${directory.id}/uploads/${upload?.id}`;
  const handle = await session.open('f', 'r+');
  for (const [method, end] of [
    ['GET', '/content'],
    ['DELETE', ''],
  ] as const) {
    const { status, json } = await berth.send(method, path + end);
    assert.deepEqual([status, json], [409, { error: 'The file is being written' }]);
  }
  await session.write(handle, 'x');
  await session.close(handle);
  await berth.receiver.next();
  assert.equal((await berth.send('DELETE', path)).status, 404, 'it is another upload now');
  assert.equal(readFileSync(join(directory.files, 'f'), 'utf8'), 'xata');
  const [newer] = await berth.uploads(directory);
  // As an administrator would, unseen: whatever is there is not what was uploaded.
  writeFileSync(join(berth.place.dir, 'other'), 'other');
  renameSync(join(berth.place.dir, 'other'), join(directory.files, 'f'));
  const refused = await berth.send('DELETE', `/directories/${directory.id}/uploads/${newer?.id}`);
  assert.deepEqual(refused.json, { error: 'The file has changed since this upload' });
  assert.equal(readFileSync(join(directory.files, 'f'), 'utf8'), 'other');
});

test('409: a parent that is a file or a link, a target that is a folder; nothing is left of what is refused', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await put(berth, directory, 'file', 'x');
  await put(berth, directory, 'folder/file', 'x');
  symlinkSync('/etc', join(directory.files, 'link'));
  const refusals: [string, string][] = [
    ['file/below', 'file is not a folder'],
    ['file/far/below', 'file is not a folder'],
    ['link/passwd', 'link is not a folder'],
    ['link', 'link is a folder or a link'],
    ['folder', 'folder is a folder or a link'],
  ];
  for (const [path, error] of refusals) {
    const answer = await put(berth, directory, path, 'y');
    assert.deepEqual([answer.status, answer.json], [409, { error }], path);
  }
  assert.deepEqual(inTransit(berth), []);
  await berth.send('DELETE', `/directories/${directory.id}`);
  assert.equal((await put(berth, directory, 'x', 'y')).status, 404);
});

test('files are listed, fetched in whole or part, and removed by their paths, however they got there', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const below = `/directories/${directory.id}/files`;
  const list = async (query = ''): Promise<ShownFile[]> => dataOf<ShownFile[]>(await berth.send('GET', below + query));
  assert.deepEqual(await list(), []);
  const made = await berth.send('PUT', `${below}/out%2Fprices%20%231.csv`, { body: 'placed' });
  assert.equal(made.status, 201);
  await putAll(berth, directory, { 'orders.csv': 'uploaded', 'x.part': 'waits' });
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
  await putAll(berth, directory, { a: '1', b: '2', c: '3', d: '4' });
  await putAll(berth, other, { a: 'theirs' });
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
  using place = scratch();
  await using berth = await startBerth(place);
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
