/** No request, extensions included, reads or writes outside the jail (PROTOCOL of OpenSSH lists them). */
import assert from 'node:assert/strict';
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { webhookOf } from '../support/berth.ts';
import { CREATE_ANEW, firstString, FXP, namesOf, NO_ATTRIBUTES, OPEN, rawSftp } from '../support/raw-sftp.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

const NAME = 104;
/** Attributes that set permissions to 0777. */
const MODE = [4, 0o777] as const;
/** Attributes that set the size to 0. */
const EMPTY = [1, 0n] as const;
/** Attributes that make it root's. */
const OWNER = [2, 0, 0] as const;

test('every request on every path outside is refused, and nothing there changes', async () => {
  await using berth = await shared();
  const neighbour = await berth.directory();
  const directory = await berth.directory();
  writeFileSync(join(neighbour.files, 'secret'), 'secret');
  const outside = join(berth.place.dir, 'outside');
  mkdirSync(outside, { mode: 0o777 });
  writeFileSync(join(outside, 'secret'), 'secret', { mode: 0o666 });
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  assert.ok(await session.put('mine', 'mine'));
  await berth.receiver.next();

  const up = '../'.repeat(20);
  const paths = [outside, neighbour.files, berth.place.dir].flatMap((folder) => [
    `${folder}/secret`,
    `${up}${folder.slice(1)}/secret`,
    `/files/../..${folder}/secret`,
  ]);
  paths.push(
    `/../${neighbour.username}/files/secret`,
    '/proc/self/root/etc/passwd',
    '/etc/passwd',
    '/dev/../../etc/passwd',
  );
  const {
    FSETSTAT: _1,
    FSTAT: _2,
    CLOSE: _3,
    READ: _4,
    WRITE: _5,
    READDIR: _6,
    EXTENDED: _7,
    REALPATH: _8,
    ...byPath
  } = FXP;
  for (const path of paths) {
    const answers = await Promise.all([
      ...[OPEN.read, CREATE_ANEW, OPEN.write | OPEN.append].map((flags) =>
        session.request(FXP.OPEN, path, flags, NO_ATTRIBUTES),
      ),
      ...Object.values(byPath)
        .filter((type) => type !== FXP.OPEN && type !== FXP.RENAME && type !== FXP.SYMLINK)
        .map((type) => session.request(type, path, ...(type === FXP.SETSTAT ? MODE : [NO_ATTRIBUTES]))),
      ...[MODE, EMPTY, OWNER].map((attributes) => session.request(FXP.SETSTAT, path, ...attributes)),
      ...[MODE, OWNER].map((attributes) => session.extended('lsetstat@openssh.com', path, ...attributes)),
      session.rename('mine', path),
      session.rename(path, 'mine2'),
      session.replace('mine', path),
      session.replace(path, 'mine2'),
      session.request(FXP.SYMLINK, path, 'link'),
      session.request(FXP.SYMLINK, 'mine', path),
      session.extended('hardlink@openssh.com', path, 'link'),
      session.extended('hardlink@openssh.com', 'mine', path),
      session.extended('statvfs@openssh.com', path),
    ]);
    // READLINK, LSTAT and the like are refused as well: there is nothing at that path.
    for (const [index, { status }] of answers.entries())
      assert.ok(status !== undefined && status > 0, `${index} of ${path}`);
    for (const answer of [
      await session.request(FXP.REALPATH, path),
      await session.extended('expand-path@openssh.com', path),
    ]) {
      if (answer.type === NAME)
        for (const name of namesOf(answer)) assert.equal(existsSync(join(directory.files, '..', name)), false, name);
    }
  }
  assert.deepEqual(readdirSync(directory.files), ['mine']);
  for (const file of [join(outside, 'secret'), join(neighbour.files, 'secret')]) {
    assert.equal(readFileSync(file, 'utf8'), 'secret');
    assert.equal(lstatSync(file).uid, 0);
  }
  assert.deepEqual(readdirSync(outside), ['secret']);
  // The parts of the jail that the user does not own: /, /dev and the socket.
  for (const path of ['/', '/dev', '/dev/log']) {
    const answers = await Promise.all([
      session.request(FXP.SETSTAT, path, ...MODE),
      session.extended('lsetstat@openssh.com', path, ...MODE),
      session.request(FXP.OPEN, path, CREATE_ANEW, NO_ATTRIBUTES),
      session.rename(path, '/files/stolen'),
      session.replace(path, '/files/stolen'),
      session.request(FXP.REMOVE, path),
      session.request(FXP.RMDIR, path),
    ]);
    for (const [index, { status }] of answers.entries())
      assert.ok(status !== undefined && status > 0, `${index} of ${path}`);
  }
  // The neighbour's own file is announced as soon as it is stable.
  const own = berth.receiver.requests.map(webhookOf).filter(({ directory_id: id }) => id === directory.id);
  assert.deepEqual(
    own.map(({ filename }) => filename),
    ['mine'],
  );
});

test('extensions that report users and paths report nothing of the machine', async () => {
  await using berth = await shared();
  const neighbour = await berth.directory();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  for (const path of ['~', '~/', ''])
    assert.deepEqual(namesOf(await session.extended('expand-path@openssh.com', path)), ['/files']);
  for (const path of [`~${neighbour.username}`, '~no-such-user']) {
    assert.ok((await session.extended('expand-path@openssh.com', path)).status, path);
  }
  // It would be the path on the machine.
  for (const name of ['', directory.username, neighbour.username])
    assert.ok((await session.extended('home-directory', name)).status, name);
  const id = (uid: number): Buffer => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(uid);
    return bytes;
  };
  const ids = Buffer.concat([0, 65_534, lstatSync(neighbour.files).uid].map(id));
  const answer = await session.extended('users-groups-by-id@openssh.com', ids, ids);
  if (answer.type === FXP.EXTENDED + 1) {
    const users = firstString(answer.body);
    const groups = firstString(answer.body.subarray(4 + users.length));
    for (const names of [users, groups]) assert.doesNotMatch(names.toString('latin1'), new RegExp(neighbour.username));
  } else assert.ok(answer.status);
  assert.equal((await session.extended('limits@openssh.com')).type, FXP.EXTENDED + 1);
  assert.ok((await session.extended('no-such-extension@example.com', 'x')).status);
});

test('copy-data is refused and copies nothing, also of a file onto itself; fsync changes nothing', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  assert.ok(await session.put('source', 'x'.repeat(100_000)));
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'source');
  const source = await session.open('source', OPEN.read);
  const copy = await session.open('copy', CREATE_ANEW);
  assert.ok(source && copy);
  for (const target of [copy, source])
    assert.ok((await session.extended('copy-data', source, 0n, 0n, target, 0n)).status, 'refused');
  await session.request(FXP.WRITE, copy, 0n, 'own');
  await session.extended('fsync@openssh.com', copy);
  assert.deepEqual(
    (await berth.uploads(directory)).map(({ filename }) => filename),
    ['source'],
    'it is still open',
  );
  await session.request(FXP.CLOSE, copy);
  const hook = webhookOf(await berth.receiver.next());
  assert.deepEqual([hook.filename, hook.size_bytes], ['copy', 3]);
  // Nor does a client that is gone leave one copying.
  await session.extended('copy-data', source, 0n, 50_000n, source, 1n);
  connection.drop();
  assert.equal(await berth.storage(directory), 100_003);
});
