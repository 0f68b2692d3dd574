/** The announced size is that of the upload, whatever happened to its file before berth could inspect it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { webhookOf } from '../support/berth.ts';
import { CREATE_ANEW, FXP, rawSftp } from '../support/raw-sftp.ts';
import { until } from '../support/poll.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

const UPLOADS = 60;

test('a file that is overwritten at once, again and again, is announced with each of its sizes, once', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  // Never waits for an answer but that of the open, which has the handle.
  const put = async (name: string, size: number): Promise<void> => {
    const handle = await session.open(name, CREATE_ANEW);
    assert.ok(handle);
    void session.request(FXP.WRITE, handle, 0n, 'x'.repeat(size));
    void session.request(FXP.CLOSE, handle);
  };
  for (let size = 1; size <= UPLOADS; size += 1) {
    await put('plain', size);
    await put('new.part', size);
    void session.replace('new.part', 'final');
  }
  const sizesOf = (name: string): number[] =>
    berth.receiver.requests
      .map(webhookOf)
      .filter(({ filename }) => filename === name)
      .map(({ size_bytes: size }) => size);
  const isLastThere = (): boolean => sizesOf('plain').length >= UPLOADS && sizesOf('final').includes(UPLOADS);
  await until('all are announced', isLastThere);
  const plain = sizesOf('plain');
  const final = sizesOf('final');
  assert.deepEqual([plain.length, new Set(plain).size], [UPLOADS, UPLOADS]);
  // If a file is replaced between the looks at its temporary and its final name, berth announces the replacement.
  assert.equal(new Set(final).size, final.length);
  for (const size of [...plain, ...final]) assert.ok(size >= 1 && size <= UPLOADS);
  await until('the last of each counts', async () => (await berth.storage(directory)) === 2 * UPLOADS);
});

test('bytes that were written twice count once, and gaps count: the size is the one on the disk', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  for (const [name, ...places] of [
    ['twice', 0n, 0n],
    ['gap', 0n, 1000n],
  ] as const) {
    const handle = await session.open(name, CREATE_ANEW);
    assert.ok(handle);
    for (const at of places) await session.request(FXP.WRITE, handle, at, 'x'.repeat(100));
    await session.request(FXP.CLOSE, handle);
  }
  const webhooks = [webhookOf(await berth.receiver.next()), webhookOf(await berth.receiver.next())];
  assert.deepEqual(
    new Map(webhooks.map(({ filename, size_bytes: size }) => [filename, size])),
    new Map([
      ['twice', 100],
      ['gap', 1100],
    ]),
  );
  await wait(3000); // longer than a stable file takes to be found
  assert.equal(berth.receiver.requests.length, 2);
  assert.equal(await berth.storage(directory), 1200);
});

test('many uploads at once whose size only the disk tells do not wait for each other for ever', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  const names = Array.from({ length: 1200 }, (_, index) => `twice-${index}`);
  const putSome = async (some: Iterator<string>): Promise<void> => {
    for (let { value: name, done } = some.next(); !done; { value: name, done } = some.next()) {
      const handle = await session.open(String(name), CREATE_ANEW);
      assert.ok(handle);
      for (let times = 0; times < 2; times += 1) void session.request(FXP.WRITE, handle, 0n, 'x'.repeat(3));
      void session.request(FXP.CLOSE, handle);
    }
  };
  const left = names.values();
  await Promise.all(Array.from({ length: 16 }, () => putSome(left)));
  await until('all count', async () => (await berth.storage(directory)) === 3 * names.length);
});
