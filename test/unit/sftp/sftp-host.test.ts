/** What `apply` and `remove` leave on the disk, and that `apply` repairs what somebody broke. */
import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { errorCode } from '../../../src/foundation/base/errors.ts';
import { KEYS_ID, pathsOf } from '../../../src/machine/sftp/paths.ts';
import { scratch } from '../../support/scratch.ts';
import { directory, hostOf, openSockets } from '../../support/sftp-user.ts';

/** The rules store lines like the first two; no other may get to sshd, even if something else has put it there. */
const KEYS = [
  'ssh-ed25519 AAAA',
  'ssh-rsa BBBB==',
  'no-pty ssh-ed25519 CCCC',
  'command="id" ssh-ed25519 CCCC',
  'ssh-ed25519 CCCC comment',
  'ssh-ed25519 CCCC\r',
  ' ssh-ed25519 CCCC',
  '# ssh-ed25519',
  'ssh-ed25519',
  '',
];

test('a directory on the disk: owners, modes and contents', async () => {
  using place = scratch();
  const paths = pathsOf(place.config);
  await using host = hostOf(paths);
  await using sockets = await openSockets(paths);
  await using linked = hostOf(paths, sockets);
  assert.ok(host);
  const row = directory({ auth_mode: 'both', public_key: KEYS.join('\n'), max_connections: 7 });
  const before = process.umask(0o077);
  try {
    await linked.apply(row);
  } finally {
    process.umask(before);
  }
  const name = row.sftp_username;
  const jail = paths.jail(name);
  const modes = [
    [paths.jails, 0, 0, 0o40711],
    [jail, 0, 0, 0o40755],
    [join(jail, 'files'), row.uid, row.uid, 0o40700],
    [join(jail, 'dev'), 0, row.uid, 0o40750],
    [join(paths.userdb, `${name}.user`), 0, 0, 0o100644],
    [join(paths.userdb, `${name}.user-privileged`), 0, 0, 0o100600],
    [join(paths.authorizedKeys, name), 0, KEYS_ID, 0o100640],
    [join(paths.limits, name), 0, 0, 0o100600],
  ] as const;
  for (const [path, uid, gid, mode] of modes) {
    const stat = lstatSync(path);
    assert.deepEqual([path, stat.uid, stat.gid, stat.mode], [path, uid, gid, mode]);
  }
  assert.equal(lstatSync(join(jail, 'dev', 'log')).ino, lstatSync(sockets.socketsFor(name)[0] ?? '').ino);
  assert.equal(readFileSync(join(paths.authorizedKeys, name), 'utf8'), 'ssh-ed25519 AAAA\nssh-rsa BBBB==\n');
  assert.equal(readFileSync(join(paths.limits, name), 'utf8'), '7\n');
  assert.deepEqual(readdirSync(paths.userdb).sort(), [`${name}.user`, `${name}.user-privileged`], 'no remnants');
  assert.equal(linked.isApplied(row), true);
});

test('apply repairs whatever is missing or damaged, and keeps the files', async () => {
  using place = scratch();
  const paths = pathsOf(place.config);
  await using first = hostOf(paths);
  await using sockets = await openSockets(paths);
  await using host = hostOf(paths, sockets);
  assert.ok(first);
  const row = directory({ auth_mode: 'both', public_key: 'ssh-ed25519 AAAA' });
  const name = row.sftp_username;
  const jail = paths.jail(name);
  const damages: (() => void)[] = [
    () => unlinkSync(join(paths.userdb, `${name}.user`)),
    () => writeFileSync(join(paths.userdb, `${name}.user-privileged`), ''),
    () => chmodSync(join(paths.userdb, `${name}.user-privileged`), 0o644),
    () => writeFileSync(join(paths.authorizedKeys, name), 'ssh-ed25519 EVIL\n'),
    () => chmodSync(join(paths.authorizedKeys, name), 0o644),
    () => chownSync(join(paths.authorizedKeys, name), 0, 0),
    () => unlinkSync(join(paths.limits, name)),
    () => chmodSync(jail, 0o777),
    () => rmSync(join(jail, 'dev'), { recursive: true }),
    () => unlinkSync(join(jail, 'dev', 'log')),
    () => writeFileSync(join(jail, 'dev', 'log.new'), 'left by a crash'),
  ];
  await host.apply(row);
  writeFileSync(join(jail, 'files', 'kept'), 'data');
  for (const damage of damages) {
    damage();
    await host.apply(row);
    assert.equal(host.isApplied(row), true, damage.toString());
  }
  for (const damage of damages.slice(0, -1)) {
    damage();
    assert.equal(host.isApplied(row), false, damage.toString());
    await host.apply(row);
  }
  assert.equal(readFileSync(join(jail, 'files', 'kept'), 'utf8'), 'data');
});

test('a jail that was cut off while it was built is built again', async () => {
  using place = scratch();
  const paths = pathsOf(place.config);
  await using host = hostOf(paths);
  const row = directory();
  mkdirSync(join(paths.corner, `new-${row.sftp_username}`, 'files'), { recursive: true });
  await host.apply(row);
  assert.equal(host.isApplied(row), true);
  assert.deepEqual(readdirSync(paths.corner), ['owner', 'transit', 'trash']);
});

test('a symbolic link that replaces a jail folder is not followed', async () => {
  using place = scratch();
  const paths = pathsOf(place.config);
  await using host = hostOf(paths);
  const row = directory();
  await host.apply(row);
  const target = join(place.dir, 'target');
  mkdirSync(target);
  rmSync(join(paths.jail(row.sftp_username), 'files'), { recursive: true });
  symlinkSync(target, join(paths.jail(row.sftp_username), 'files'));
  await assert.rejects(host.apply(row), /ENOTDIR|ELOOP/);
  assert.equal(lstatSync(target).uid, 0);
});

test('remove takes everything, can be repeated, and follows no link out of the jail', async () => {
  using place = scratch();
  const paths = pathsOf(place.config);
  await using host = hostOf(paths);
  const row = directory({ auth_mode: 'both', public_key: 'ssh-ed25519 AAAA' });
  await host.apply(row);
  const outside = join(place.dir, 'outside');
  mkdirSync(outside);
  writeFileSync(join(outside, 'precious'), '');
  symlinkSync(outside, join(paths.jail(row.sftp_username), 'files', 'link'));
  await host.remove(row);
  await host.remove(row);
  await host.drained();
  assert.deepEqual(readdirSync(paths.jails), ['.berth']);
  for (const folder of [paths.userdb, paths.authorizedKeys, paths.limits, paths.trash])
    assert.deepEqual(readdirSync(folder), []);
  assert.equal(existsSync(join(outside, 'precious')), true);
});

test('a removal that a crash cut off goes on at the next start', async () => {
  using place = scratch();
  const paths = pathsOf(place.config);
  await using before = hostOf(paths);
  assert.ok(before);
  mkdirSync(join(paths.trash, 'gone-1', 'files', 'deep'), { recursive: true });
  await using host = hostOf(paths);
  await host.drained();
  assert.deepEqual(readdirSync(paths.trash), []);
});

// One socket in many jails: what happens when the file system allows no further link to it.

test('when a socket has all its links, the next one is linked and the directory is live with it', async (context) => {
  using place = scratch();
  const paths = pathsOf(place.config);
  await using first = hostOf(paths);
  await using sockets = await openSockets(paths, 2);
  await using host = hostOf(paths, sockets);
  assert.ok(first);
  const [socket = '', next = ''] = sockets.socketsFor('');
  if (!exhaust(socket, place.dir)) {
    context.skip('this file system sets no limit below 70,000');
    return;
  }
  const row = directory();
  await host.apply(row);
  assert.equal(lstatSync(join(paths.jail(row.sftp_username), 'dev', 'log')).ino, lstatSync(next).ino);
  assert.equal(host.isApplied(row), true);
});

function exhaust(file: string, dir: string): boolean {
  const links = join(dir, 'links');
  mkdirSync(links);
  try {
    for (let i = 0; i < 70_000; i++) linkSync(file, join(links, String(i)));
    return false;
  } catch (error) {
    if (errorCode(error) === 'EMLINK') return true;
    throw error;
  }
}
