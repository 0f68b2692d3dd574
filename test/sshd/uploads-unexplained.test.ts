/** Changes that no session explains: berth was down, or an administrator was at work. */
import assert from 'node:assert/strict';
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { startBerth, webhookOf } from '../support/berth.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { sftpSession } from '../support/sftp-session.ts';

test('an upload made while berth is down is announced after it is back; removals and renames are seen too', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  writeFileSync(join(place.dir, 'a'), 'one');
  writeFileSync(join(place.dir, 'b'), 'three');
  await sftp(place.dir, directory.login, ['put a kept', 'put a gone', 'put a old-name']);
  for (let i = 0; i < 3; i++) await berth.receiver.next();
  const before = new Map((await berth.uploads(directory)).map(({ filename, id }) => [filename, id]));

  await berth.stop();
  const { code, output } = await sftp(place.dir, directory.login, ['put b', 'rm gone', 'rename old-name new-name']);
  assert.equal(code, 0, output);
  await berth.start();
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'b');
  await until('the list agrees with the disk', async () => {
    const names = (await berth.uploads(directory)).map(({ filename }) => filename).toSorted();
    return names.join() === 'b,kept,new-name';
  });
  const after = new Map((await berth.uploads(directory)).map(({ filename, id }) => [filename, id]));
  assert.equal(after.get('kept'), before.get('kept'));
  assert.equal(after.get('new-name'), before.get('old-name'));
  assert.equal(await berth.storage(directory), 11);
  assert.equal(berth.receiver.requests.length, 4);
});

test('an upload under way while berth restarts is announced at its close, not while it pauses', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  const handle = await session.open('slow', 'w');
  await session.write(handle, 'before');
  await berth.stop();
  await session.write(handle, ' during', 6);
  await berth.start();
  await wait(3500); // the scan sees it stable, and that somebody holds it open
  assert.equal(berth.receiver.requests.length, 0);
  await session.write(handle, ' after', 13);
  await session.close(handle);
  assert.equal(webhookOf(await berth.receiver.next()).size_bytes, 19);
});

test('an empty upload without log lines is not taken for an identical one that was logged and overwritten', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await berth.stop();
  await session.put('unheard', '');
  await berth.start();
  await session.put('heard', '');
  await session.put('heard', 'x');
  const hooks = [await berth.receiver.next(), await berth.receiver.next(), await berth.receiver.next()];
  const announced = hooks.map((hook) => webhookOf(hook)).map((of) => `${of.filename} ${of.size_bytes}`);
  assert.deepEqual(announced.toSorted(), ['heard 0', 'heard 1', 'unheard 0']);
});

test('a file that an administrator copies in is an upload once it is stable; moving and removing it is seen', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  await berth.service().covered;
  mkdirSync(join(directory.files, 'in'));
  writeFileSync(join(directory.files, 'in', 'copied'), 'by root');
  const hook = webhookOf(await berth.receiver.next());
  assert.deepEqual([hook.filename, hook.size_bytes], ['in/copied', 7]);
  const [before] = await berth.uploads(directory);

  renameSync(join(directory.files, 'in', 'copied'), join(directory.files, 'moved'));
  await until('the row has moved', async () => (await berth.uploads(directory))[0]?.filename === 'moved');
  assert.equal((await berth.uploads(directory))[0]?.id, before?.id);
  rmSync(join(directory.files, 'moved'));
  await until('the row has gone', async () => (await berth.storage(directory)) === 0);
  assert.equal(berth.receiver.requests.length, 1);
});
