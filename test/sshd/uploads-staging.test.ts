/** Staging folders: uploads below a folder with a temporary name wait for its rename, like a file with one. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { type TestBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { FXP, OPEN, type RawSftp, rawSftp } from '../support/raw-sftp.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

/** Longer than a stable file takes to be found. */
const PAUSE_MS = 4000;

/** The names of the webhooks, once there are that many and no more come. */
async function announced({ receiver }: TestBerth, count: number): Promise<string[]> {
  await until(`${count} are announced`, () => receiver.requests.length >= count);
  await wait(PAUSE_MS);
  return receiver.requests.map((request) => webhookOf(request).filename).toSorted();
}

async function listed(berth: TestBerth, directory: TestDirectory): Promise<string[]> {
  return (await berth.uploads(directory)).map(({ filename }) => filename).toSorted();
}

async function folders(sftp: RawSftp, ...paths: readonly string[]): Promise<void> {
  for (const path of paths) assert.equal((await sftp.request(FXP.MKDIR, path, 0)).status, 0);
}

void describe('staging folders', { concurrency: true }, () => {
  for (const staging of ['batch.tmp', '.staging', '_temporary'])
    test(`${staging}, renamed when it is complete: each file once, below the final name`, async () => {
      await using berth = await shared();
      const directory = await berth.directory();
      const sftp = await rawSftp(await berth.connect(directory));
      await folders(sftp, staging, `${staging}/deep`);
      for (const name of ['a.csv', 'b.csv', 'deep/c.csv']) assert.ok(await sftp.put(`${staging}/${name}`, name));
      await wait(500);
      assert.equal(berth.receiver.requests.length, 0, 'nothing is announced below the temporary name');
      assert.deepEqual(await berth.uploads(directory), []);
      assert.equal((await sftp.rename(staging, 'batch')).status, 0);
      const expected = ['batch/a.csv', 'batch/b.csv', 'batch/deep/c.csv'];
      assert.deepEqual(await announced(berth, 3), expected);
      assert.deepEqual(await listed(berth, directory), expected);
    });

  test('as Hadoop and Spark commit: out of the attempt, then out of _temporary', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    const sftp = await rawSftp(await berth.connect(directory));
    const attempt = 'out/_temporary/0/_temporary/attempt_1';
    await folders(sftp, 'out', 'out/_temporary', 'out/_temporary/0', 'out/_temporary/0/_temporary', attempt);
    for (const part of ['part-00000', 'part-00001']) assert.ok(await sftp.put(`${attempt}/${part}`, part));
    assert.equal((await sftp.rename(attempt, 'out/_temporary/0/task_1')).status, 0);
    await wait(500);
    assert.equal(berth.receiver.requests.length, 0);
    for (const part of ['part-00000', 'part-00001'])
      assert.equal((await sftp.rename(`out/_temporary/0/task_1/${part}`, `out/${part}`)).status, 0);
    assert.deepEqual(await announced(berth, 2), ['out/part-00000', 'out/part-00001']);
  });

  test('a file that is open at the rename is announced at its close, and one with a temporary name at its own', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    const sftp = await rawSftp(await berth.connect(directory));
    await folders(sftp, 'in.part');
    assert.ok(await sftp.put('in.part/again', 'half'));
    assert.ok(await sftp.put('in.part/last.filepart', 'last'));
    const handle = await sftp.open('in.part/again', OPEN.write | OPEN.append);
    assert.ok(handle);
    await sftp.request(FXP.WRITE, handle, 0n, ' and half');
    assert.equal((await sftp.rename('in.part', 'in')).status, 0);
    await wait(1500);
    assert.equal(berth.receiver.requests.length, 0);
    await sftp.request(FXP.CLOSE, handle);
    assert.equal(webhookOf(await berth.receiver.next()).size_bytes, 'half and half'.length);
    assert.equal((await sftp.rename('in/last.filepart', 'in/last')).status, 0);
    assert.deepEqual(await announced(berth, 2), ['in/again', 'in/last']);
  });

  test('one that is never renamed: its files are announced when the session ends', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    {
      await using connection = await berth.connect(directory);
      const sftp = await rawSftp(connection);
      await folders(sftp, '.cache');
      assert.ok(await sftp.put('.cache/kept', 'x'));
      await wait(500);
      assert.equal(berth.receiver.requests.length, 0);
    }
    assert.deepEqual(await announced(berth, 1), ['.cache/kept']);
  });

  test('more files than one transaction takes: each once', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    const sftp = await rawSftp(await berth.connect(directory));
    await folders(sftp, 'many.tmp');
    const names = Array.from({ length: 250 }, (_, i) => String(i).padStart(3, '0'));
    for (const name of names) assert.ok(await sftp.put(`many.tmp/${name}`, 'x'));
    assert.equal((await sftp.rename('many.tmp', 'many')).status, 0);
    const expected = names.map((name) => `many/${name}`);
    assert.deepEqual(await announced(berth, names.length), expected);
    assert.deepEqual(await listed(berth, directory), expected);
  });
});
