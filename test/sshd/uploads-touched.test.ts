/** Uploads whose times, sizes or names are changed right after their close, as clients do: one webhook each. */
import assert from 'node:assert/strict';
import { chmodSync, utimesSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { type TestBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { CREATE_ANEW, FXP, OPEN, rawSftp } from '../support/raw-sftp.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

const FILES = 40;

/** Access and modification time (draft-ietf-secsh-filexfer-02, section 5). */
const TIMES = [8, 1_700_000_000, 1_700_000_000] as const;

/** Longer than a stable file takes to be found. */
const PAUSE_MS = 4000;

/** `a 5` for each upload in the list, by name. */
async function listed(berth: TestBerth, directory: TestDirectory): Promise<string[]> {
  return (await berth.uploads(directory)).map(({ filename, size_bytes }) => `${filename} ${size_bytes}`).toSorted();
}

void describe('names and times that change', { concurrency: true }, () => {
  test('written, closed, dated and renamed, with and without pauses: one webhook and one row each', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    const session = await rawSftp(connection);
    for (let i = 0; i < FILES; i++) {
      const pause = async (): Promise<void> => (i % 4 === 0 ? undefined : wait((i * 7) % 13));
      assert.ok(await session.put(`new-${i}`, 'x'.repeat(i + 1)));
      await pause();
      assert.equal((await session.request(FXP.SETSTAT, `new-${i}`, ...TIMES)).status, 0);
      await pause();
      assert.equal((await session.rename(`new-${i}`, `file-${i}`)).status, 0);
    }
    await until('all are announced', () => berth.receiver.requests.length >= FILES);
    await wait(PAUSE_MS);
    const sizes = berth.receiver.requests.map((request) => webhookOf(request).size_bytes);
    assert.deepEqual(
      sizes.toSorted((a, b) => a - b),
      Array.from({ length: FILES }, (_, i) => i + 1),
    );
    assert.deepEqual(
      await listed(berth, directory),
      Array.from({ length: FILES }, (_, i) => `file-${i} ${i + 1}`).toSorted(),
    );
  });

  test('written, appended to and renamed, with pauses: two webhooks, and a row for each file', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    const session = await rawSftp(connection);
    for (let i = 0; i < FILES; i++) {
      assert.ok(await session.put(`a-${i}`, 'x'));
      await wait(i % 11);
      const handle = await session.open(`a-${i}`, OPEN.write | OPEN.append);
      assert.ok(handle);
      await session.request(FXP.WRITE, handle, 0n, 'yy');
      await session.request(FXP.CLOSE, handle);
      await wait((i * 3) % 11);
      assert.equal((await session.rename(`a-${i}`, `b-${i}`)).status, 0);
    }
    await until('all are listed', async () => {
      const names = (await berth.uploads(directory)).map(({ filename }) => filename);
      return names.length === FILES && names.every((name) => name.startsWith('b-'));
    });
    await until('all are announced', () => berth.receiver.requests.length >= 2 * FILES);
    await wait(PAUSE_MS);
    assert.equal(berth.receiver.requests.length, 2 * FILES);
    assert.equal(await berth.storage(directory), 3 * FILES);
  });

  test('one name replaced by two others, all at once: the rows are those of the disk', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    const session = await rawSftp(connection);
    for (let i = 0; i < FILES; i++) {
      assert.ok(await session.put(`a${i}`, 'a'));
      assert.ok(await session.put(`c${i}`, 'cc'));
      void session.replace(`a${i}`, `b${i}`);
      void session.replace(`c${i}`, `b${i}`);
    }
    await session.request(FXP.STAT, '.');
    const wanted = Array.from({ length: FILES }, (_, i) => `b${i} 2`).toSorted();
    const rows = (): Promise<string[]> => listed(berth, directory);
    await until('the rows are those of the disk', async () => String(await rows()) === String(wanted));
    await until('all are announced', () => berth.receiver.requests.length >= 2 * FILES);
    await wait(PAUSE_MS);
    assert.deepEqual(await rows(), wanted);
    assert.equal(await berth.storage(directory), 2 * FILES);
    assert.equal(berth.receiver.requests.length, 2 * FILES);
  });

  test('folders that are filled and renamed, and whose names are used again at once: each upload once', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    const session = await rawSftp(connection);
    const rounds = 20;
    for (let round = 0; round < rounds; round++) {
      void session.request(FXP.MKDIR, 'in', 0);
      for (let i = 0; i < 5; i++) assert.ok(await session.put(`in/${i}`, 'x'.repeat(5 * round + i + 1)));
      void session.rename('in', `done-${round}`);
    }
    await session.request(FXP.STAT, '.');
    const wanted = Array.from(
      { length: 5 * rounds },
      (_, i) => `done-${Math.floor(i / 5)}/${i % 5} ${i + 1}`,
    ).toSorted();
    const rows = (): Promise<string[]> => listed(berth, directory);
    await until('the rows are those of the disk', async () => String(await rows()) === String(wanted)).catch(
      () => undefined,
    );
    assert.deepEqual(await rows(), wanted);
    await until('all are announced', () => berth.receiver.requests.length >= 5 * rounds);
    await wait(PAUSE_MS);
    const sizes = berth.receiver.requests.map((request) => webhookOf(request).size_bytes);
    assert.equal(new Set(sizes).size, sizes.length, 'none was announced twice');
    assert.equal(sizes.length, 5 * rounds);
    assert.equal(await berth.storage(directory), (5 * rounds * (5 * rounds + 1)) / 2);
  });

  test('an upload is cut off, and a folder takes its name and is renamed: no row belongs to a folder', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    const rounds = 8;
    for (let round = 0; round < rounds; round++) {
      const dropped = await berth.connect(directory);
      const first = await rawSftp(dropped);
      const handle = await first.open(`x${round}`, CREATE_ANEW);
      assert.ok(handle);
      await first.request(FXP.WRITE, handle, 0n, 'x'.repeat(500));
      dropped.drop();
      await using connection = await berth.connect(directory);
      const second = await rawSftp(connection);
      void second.request(FXP.REMOVE, `x${round}`);
      void second.request(FXP.MKDIR, `x${round}`, 0);
      assert.equal((await second.rename(`x${round}`, `y${round}`)).status, 0);
    }
    await until('nothing is counted', async () => (await berth.storage(directory)) === 0);
    await wait(PAUSE_MS);
    assert.equal(await berth.storage(directory), 0);
    assert.deepEqual(await berth.uploads(directory), []);
    assert.equal(berth.receiver.requests.length, 0);
  });

  test('held open under a temporary name, renamed and overwritten by a second handle: announced once, at the last close', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    const session = await rawSftp(connection);
    const rounds = 10;
    for (let round = 0; round < rounds; round++) {
      const first = await session.open(`f${round}.part`, CREATE_ANEW);
      assert.ok(first);
      await session.request(FXP.WRITE, first, 0n, 'old old');
      assert.equal((await session.rename(`f${round}.part`, `f${round}`)).status, 0);
      if (round % 2) await wait(20);
      const second = await session.open(`f${round}`, CREATE_ANEW);
      assert.ok(second);
      await session.request(FXP.WRITE, second, 0n, 'x'.repeat(100 + round));
      await session.request(FXP.CLOSE, first);
      if (round % 3) await wait(20);
      await session.request(FXP.CLOSE, second);
    }
    await until('all are announced', () => berth.receiver.requests.length >= rounds);
    await wait(PAUSE_MS);
    assert.deepEqual(
      berth.receiver.requests.map((request) => webhookOf(request).size_bytes).toSorted((a, b) => a - b),
      Array.from({ length: rounds }, (_, round) => 100 + round),
    );
    assert.equal((await berth.uploads(directory)).length, rounds);
  });

  test('put -p of other bytes, with size and time of the file that was found there, is an upload', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    await berth.service().covered;
    await using connection = await berth.connect(directory);
    const session = await rawSftp(connection);
    writeFileSync(`${directory.files}/report`, 'from root');
    chmodSync(`${directory.files}/report`, 0o666);
    utimesSync(`${directory.files}/report`, TIMES[1], TIMES[2]);
    const first = webhookOf(await berth.receiver.next());
    const handle = await session.open('report', CREATE_ANEW);
    assert.ok(handle);
    await session.request(FXP.WRITE, handle, 0n, 'from user');
    await session.request(FXP.FSETSTAT, handle, ...TIMES);
    await session.request(FXP.CLOSE, handle);
    const second = webhookOf(await berth.receiver.next());
    assert.deepEqual([first.filename, second.filename, second.size_bytes], ['report', 'report', 9]);
    assert.ok(second.uploaded_at > first.uploaded_at);
  });

  test('a sparse file larger than any disk counts as the largest possible file, and leaves no trace in the sum', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    const session = await rawSftp(connection);
    assert.ok(await session.put('small', 'abc'));
    const handle = await session.open('sparse', CREATE_ANEW);
    assert.ok(handle);
    // As far as this file system goes.
    let end = 2n ** 62n;
    while ((await session.request(FXP.WRITE, handle, end, 'x')).status !== 0) end /= 2n;
    await session.request(FXP.CLOSE, handle);
    await until('both are counted', async () => (await berth.storage(directory)) > 3);
    assert.equal((await session.request(FXP.REMOVE, 'sparse')).status, 0);
    await until('one is left', async () => (await berth.storage(directory)) === 3);
  });
});
