/** Refusals whose request sshd does not log, while an upload is open: they do not affect the upload. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBerth, webhookOf } from '../support/berth.ts';
import { CREATE_ANEW, firstString, FXP, OPEN, rawSftp, type RawSftp } from '../support/raw-sftp.ts';
import { scratch } from '../support/scratch.ts';

const BAD = Buffer.from([0, 0, 9, 9]);

/** Each is refused. What they get is `Failure`, mostly, which is also the answer to a write that had no room. */
const REFUSED: Record<string, (session: RawSftp) => Promise<unknown>> = {
  'fstat of a bad handle': (session) => session.request(FXP.FSTAT, BAD),
  'read of a bad handle': (session) => session.request(FXP.READ, BAD, 0n, 10),
  'write to a bad handle': (session) => session.request(FXP.WRITE, BAD, 0n, 'x'),
  'fsetstat of a bad handle': (session) => session.request(FXP.FSETSTAT, BAD, 8, 1, 1),
  'fstatvfs of a bad handle': (session) => session.extended('fstatvfs@openssh.com', BAD),
  'readdir of a file': async (session) => {
    const handle = await session.open('there', OPEN.read);
    assert.ok(handle);
    await session.request(FXP.READDIR, handle);
    await session.request(FXP.CLOSE, handle);
  },
  'a folder read to its end and on': async (session) => {
    const handle = firstString((await session.request(FXP.OPENDIR, '.')).body);
    for (let i = 0; i < 3; i++) await session.request(FXP.READDIR, handle);
    await session.request(FXP.CLOSE, handle);
  },
  'home-directory of nobody': (session) => session.extended('home-directory', 'nobody-at-all'),
  'copy-data onto itself': (session) => session.extended('copy-data', BAD, 0n, 0n, BAD, 0n),
  'an exclusive open of what is there': (session) => session.open('there', CREATE_ANEW | OPEN.exclusive),
  'an exclusive open of the upload itself': (session) => session.open('upload', CREATE_ANEW | OPEN.exclusive),
  'a folder that is there': (session) => session.request(FXP.MKDIR, 'folder', 0),
  'the removal of a folder as a file': (session) => session.request(FXP.REMOVE, 'folder'),
  'a rename onto another file': (session) => session.rename('upload', 'there'),
  'a rename onto itself': (session) => session.rename('upload', 'upload'),
  'a folder renamed onto itself': (session) => session.rename('folder', 'folder'),
  'a link': (session) => session.extended('hardlink@openssh.com', 'there', 'link'),
};

test('a refusal while an upload is open: it is announced at its close', async (t) => {
  using place = scratch();
  await using berth = await startBerth(place);
  for (const [name, refused] of Object.entries(REFUSED)) {
    await t.test(name, async () => {
      const directory = await berth.directory();
      await using connection = await berth.connect(directory);
      const session = await rawSftp(connection);
      assert.ok(await session.put('there', 'x'));
      await session.request(FXP.MKDIR, 'folder', 0);
      assert.equal(webhookOf(await berth.receiver.next()).filename, 'there');
      const handle = await session.open('upload', CREATE_ANEW);
      assert.ok(handle);
      await session.request(FXP.WRITE, handle, 0n, 'first ');
      await refused(session);
      await session.request(FXP.WRITE, handle, 6n, 'second');
      await session.request(FXP.CLOSE, handle);
      const { directory_id, filename, size_bytes } = webhookOf(await berth.receiver.next());
      assert.deepEqual([directory_id, filename, size_bytes], [directory.id, 'upload', 12]);
      assert.equal((await berth.uploads(directory)).length, 2);
    });
  }
});

test('a client sends an exclusive open, which is refused, and an ordinary one right behind it: each upload is announced once', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  assert.ok(await session.put('file', 'x'));
  assert.equal(webhookOf(await berth.receiver.next()).size_bytes, 1);
  for (let size = 2; size <= 7; size += 1) {
    const refused = session.open('file', CREATE_ANEW | OPEN.exclusive);
    const handle = await session.open('file', CREATE_ANEW);
    assert.equal(await refused, undefined);
    assert.ok(handle);
    void session.request(FXP.WRITE, handle, 0n, 'x'.repeat(size));
    await session.request(FXP.CLOSE, handle);
    assert.equal(webhookOf(await berth.receiver.next()).size_bytes, size);
  }
  assert.equal(berth.receiver.requests.length, 7);
  assert.equal((await berth.uploads(directory)).length, 1);
});
