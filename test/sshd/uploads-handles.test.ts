/** When an upload is complete: stalled, dropped, resumed and doubled handles. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

test('an upload that pauses for 5 s is announced once, complete, and not before its close', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  const handle = await session.open('big', 'w');
  await session.write(handle, 'first half ');
  await wait(5000);
  assert.equal(berth.receiver.requests.length, 0);
  assert.deepEqual(await berth.uploads(directory), []);
  await session.write(handle, 'second half', 11);
  await session.close(handle);
  assert.equal(webhookOf(await berth.receiver.next()).size_bytes, 22);
  await wait(3000); // longer than a stable file would take to be found
  assert.equal(berth.receiver.requests.length, 1);
});

test('a dropped connection leaves a partial file: counted, not listed, never announced; a resumed upload completes it', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const dropped = await berth.connect(directory);
  const first = await sftpSession(dropped);
  await first.write(await first.open('file', 'w'), 'only half');
  dropped.drop();
  await until('the partial file is counted', async () => (await berth.storage(directory)) === 9);
  await wait(3000);
  assert.deepEqual(await berth.uploads(directory), []);
  assert.equal(berth.receiver.requests.length, 0, 'a forced close is never announced');

  await using connection = await berth.connect(directory);
  const second = await sftpSession(connection);
  const handle = await second.open('file', 'r+');
  await second.write(handle, ' and the rest', 9);
  await second.close(handle);
  const hook = webhookOf(await berth.receiver.next());
  assert.deepEqual([hook.filename, hook.size_bytes], ['file', 22]);
  assert.equal((await berth.uploads(directory)).length, 1);
  assert.equal(await berth.storage(directory), 22);
});

test('two handles on one file: announced once, when the last is closed', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  await using other = await berth.connect(directory);
  const session = await sftpSession(connection);
  const second = await sftpSession(other);
  const one = await session.open('file', 'w');
  const two = await second.open('file', 'r+');
  await session.write(one, 'aaaa');
  await second.write(two, 'bbbb', 4);
  await session.close(one);
  await wait(2500);
  assert.equal(berth.receiver.requests.length, 0, 'it is still being written');
  await second.close(two);
  assert.equal(webhookOf(await berth.receiver.next()).size_bytes, 8);
  assert.equal((await berth.uploads(directory)).length, 1);
});
