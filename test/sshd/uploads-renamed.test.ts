/** Renames: of temporary names, of announced files and of folders. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

test('a temporary name is announced under the final one, once it is renamed', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.put('report.csv.filepart', '12345');
  await until('it is counted', async () => (await berth.storage(directory)) === 5);
  await wait(2500);
  assert.deepEqual(await berth.uploads(directory), [], 'not an upload yet');
  await session.rename('report.csv.filepart', 'report.csv');
  const hook = webhookOf(await berth.receiver.next());
  assert.deepEqual([hook.filename, hook.size_bytes], ['report.csv', 5]);
  assert.deepEqual(
    (await berth.uploads(directory)).map(({ filename }) => filename),
    ['report.csv'],
  );
  assert.equal(await berth.storage(directory), 5);
});

test('a temporary name is announced as it is when the session ends without renaming it', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.put('left.part', '123');
  await until('it is counted', async () => (await berth.storage(directory)) === 3);
  assert.equal(berth.receiver.requests.length, 0);
  await connection[Symbol.asyncDispose]();
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'left.part');
});

test('a renamed upload keeps its id and time and is not announced again; so does every file of a renamed folder', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.mkdir('in');
  await session.put('in/a', '1');
  await session.put('in/b', '22');
  await session.put('target', 'old');
  for (let i = 0; i < 3; i++) await berth.receiver.next();
  const ids = new Map(
    (await berth.uploads(directory)).map(({ id, filename, uploaded_at }) => [filename, { id, uploaded_at }]),
  );

  await session.rename('in/a', 'in/c');
  await session.rename('in', 'done');
  await session.replace('done/b', 'target');
  const names = async (): Promise<string[]> =>
    (await berth.uploads(directory)).map(({ filename }) => filename).toSorted();
  await until('the rows have moved', async () => (await names()).join() === 'done/c,target');
  for (const { id, filename, uploaded_at } of await berth.uploads(directory)) {
    assert.deepEqual({ id, uploaded_at }, ids.get(filename === 'target' ? 'in/b' : 'in/a'));
  }
  assert.equal(await berth.storage(directory), 3, 'what was replaced is not counted any more');
  await wait(2500);
  assert.equal(berth.receiver.requests.length, 3);
});

test('files that are renamed and overwritten as fast as the protocol allows are each announced', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  const rounds = 20;
  for (let i = 0; i < rounds; i++) {
    await session.put(`t${i}.tmp`, `${i}`);
    await session.rename(`t${i}.tmp`, `final${i}`);
    await session.put(`x${i}`, `${i}`);
    await session.rename(`x${i}`, `y${i}`);
  }
  const announced = new Set<string>();
  for (let i = 0; i < 2 * rounds; i++) announced.add(webhookOf(await berth.receiver.next()).filename);
  for (let i = 0; i < rounds; i++) assert.ok(announced.has(`final${i}`) && announced.has(`x${i}`), `round ${i}`);
  await until('the list agrees', async () => {
    const names = (await berth.uploads(directory)).map(({ filename }) => filename);
    return names.length === 2 * rounds && names.every((name) => /^(final|y)\d+$/.test(name));
  });
});

test('a folder is renamed while a file in it is written, and something is refused: announced under its new name', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  await using other = await berth.connect(directory);
  const writer = await sftpSession(connection);
  const renamer = await sftpSession(other);
  await writer.mkdir('in');
  const handle = await writer.open('in/a', 'w');
  await writer.write(handle, '12345');
  await renamer.rename('in', 'done');
  // As clients do to see whether it is gone. sshd logs the answer only.
  await assert.rejects(promisify(renamer.raw.stat.bind(renamer.raw))('in'));
  await writer.write(handle, '67', 5);
  await writer.close(handle);
  const hook = webhookOf(await berth.receiver.next());
  assert.deepEqual([hook.filename, hook.size_bytes], ['done/a', 7]);
  const names = (await berth.uploads(directory)).map(({ filename }) => filename);
  assert.deepEqual(names, ['done/a']);
});
