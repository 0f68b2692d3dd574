/** `openssh/authorized-keys`: sshd asks it for a user's key, with whatever name a client has sent. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { KEYS_ID, pathsOf } from '../../src/machine/sftp/paths.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { prepareSshd } from '../../src/machine/sftp/sshd.ts';
import { sftp } from '../support/openssh-client.ts';
import { scratch, type Scratch } from '../support/scratch.ts';
import { directory, hostOf, keyPair } from '../support/sftp-user.ts';
import { startSshd } from '../support/sshd.ts';

const TEMPLATE = fileURLToPath(new URL('../../openssh/authorized-keys', import.meta.url));
const IN_NAMESPACE = fileURLToPath(new URL('../../openssh/in-namespace', import.meta.url));

/** The helper as sshd runs it: its user, and no program in reach, so that builtins are all that it can use. */
function helper(place: Scratch) {
  const { authorizedKeys, offeredKeys } = pathsOf(place.config);
  mkdirSync(authorizedKeys, { recursive: true });
  mkdirSync(offeredKeys, { recursive: true });
  chownSync(offeredKeys, KEYS_ID, KEYS_ID);
  const fill = [`s|{{authorizedKeys}}|${authorizedKeys}|;s|{{offeredKeys}}|${offeredKeys}|`, TEMPLATE];
  const script = execFileSync('sed', fill, { encoding: 'utf8' });
  return {
    keys: authorizedKeys,
    offered: offeredKeys,
    ask(...args: string[]) {
      const account = { uid: KEYS_ID, gid: KEYS_ID, env: { PATH: '/nonexistent' } };
      const { status, stdout, stderr } = spawnSync('/bin/sh', ['-c', script, 'authorized-keys', ...args], {
        encoding: 'utf8',
        ...account,
      });
      return [status, stdout, stderr];
    },
  };
}

const NOTHING = [0, '', ''];

test('a username gets the keys in its own file, one a line, and no others', () => {
  using place = scratch();
  const { keys, ask } = helper(place);
  writeFileSync(join(keys, 'acme-1'), 'ssh-ed25519 AAAA\nssh-ed25519 BBBB\nssh-ed25519 CUT-OF');
  writeFileSync(join(keys, 'other-1'), 'ssh-ed25519 CCCC\n');
  const both = [0, 'ssh-ed25519 AAAA\nssh-ed25519 BBBB\n', ''];
  assert.deepEqual(ask('acme-1'), both);
  assert.deepEqual(ask('acme-1', 'other-1'), both, 'one user only');
});

test('each fingerprint that is offered is noted with the connection that offers it, and nothing else', () => {
  using place = scratch();
  const { offered, ask } = helper(place);
  const noted = () => readdirSync(offered).map((name) => [name, readFileSync(join(offered, name), 'utf8')]);
  for (const fingerprint of ['', 'SHA256', 'MD5:AAAA', 'SHA256:A B', 'SHA256:A\nB', 'SHA256:$(id)', 'SHA256:../x;id'])
    assert.deepEqual(ask('acme-1', fingerprint), NOTHING, fingerprint);
  assert.deepEqual(ask('../x', 'SHA256:AAAA'), NOTHING);
  assert.deepEqual(noted(), []);
  for (const fingerprint of ['SHA256:AAAA', 'SHA256:Bb+/1']) assert.deepEqual(ask('acme-1', fingerprint), NOTHING);
  const started = readFileSync('/proc/self/stat', 'latin1').split(') ')[1]?.split(' ')[19];
  const connection = `${process.pid} ${started}`;
  assert.deepEqual(noted(), [['acme-1', `${connection} SHA256:AAAA\n${connection} SHA256:Bb+/1\n`]]);

  writeFileSync(join(offered, 'acme-1'), 'x'.repeat(16_000));
  for (let i = 0; i < 20; i += 1) ask('acme-1', 'SHA256:AAAA');
  assert.match(String(noted()[0]?.[1]), /^(\d+ \d+ SHA256:AAAA\n){1,19}$/, 'a full file starts again');
});

test('a hostile name, or a key file that is missing, broken or unreadable, prints no key and does not fail', () => {
  using place = scratch();
  const { keys, ask } = helper(place);
  writeFileSync(join(keys, '..', 'x'), 'ssh-ed25519 OUTSIDE\n');
  for (const name of ['*', 'A', 'a b', 'a_b', 'é', '-n.', 'acme-1.new', '$(id)', 'a;id', 'a\nb'])
    writeFileSync(join(keys, name), 'ssh-ed25519 AAAA\n');
  const hostile = ['../x', '..', '.', '/', '/etc/passwd', '', '*', 'A', 'a b', 'a_b', 'é', '-n.', 'acme-1.new'];
  for (const name of [...hostile, '$(id)', 'a;id', 'a\nb', 'a/../../x', 'x'.repeat(5000), '--', '-'])
    assert.deepEqual(ask(name), NOTHING, name);
  assert.deepEqual(ask(), NOTHING);

  mkdirSync(join(keys, 'folder'));
  writeFileSync(join(keys, 'empty'), '');
  writeFileSync(join(keys, 'cut-off'), 'ssh-ed25519 AAA');
  writeFileSync(join(keys, 'closed'), 'ssh-ed25519 AAAA\n', { mode: 0o600 });
  for (const name of ['missing', 'folder', 'empty', 'cut-off', 'closed']) assert.deepEqual(ask(name), NOTHING, name);
  chmodSync(keys, 0o700);
  assert.deepEqual(ask('acme-1'), NOTHING, 'the folder is closed to it');
});

test('its user can read the keys and no secret of berth; SFTP users cannot read the keys', async () => {
  using place = scratch();
  await using sshd = await startSshd(place);
  await using host = hostOf(sshd.paths);
  const row = directory({ auth_mode: 'both', public_key: 'ssh-ed25519 AAAA' });
  await host.apply(row);
  const { paths } = sshd;
  const key = join(paths.authorizedKeys, row.sftp_username);
  const reads = (id: number, path: string) => spawnSync('cat', [path], { uid: id, gid: id }).status === 0;
  assert.equal(reads(KEYS_ID, key), true);
  assert.equal(reads(row.uid, key), false);
  assert.equal(spawnSync('ls', [paths.authorizedKeys], { uid: KEYS_ID, gid: KEYS_ID }).status, 2);
  for (const secret of [
    join(paths.userdb, `${row.sftp_username}.user-privileged`),
    join(paths.limits, row.sftp_username),
    join(paths.hostKeys, 'ssh_host_ed25519_key'),
  ])
    assert.equal(reads(KEYS_ID, secret), false, secret);
});

test('an installation whose sshd read the key files itself lets the same keys in after its update', async () => {
  using place = scratch();
  const paths = pathsOf(place.config);
  await using host = hostOf(paths);
  const { file, publicKey } = keyPair(place.dir);
  const row = directory({ auth_mode: 'public_key', public_key: publicKey });
  await host.apply(row);
  // As the version before wrote them.
  const stored = join(paths.authorizedKeys, row.sftp_username);
  chownSync(stored, 0, 0);
  chmodSync(stored, 0o644);
  mkdirSync(paths.sshd, { recursive: true });
  writeFileSync(join(paths.sshd, 'sshd_config'), `AuthorizedKeysFile ${paths.authorizedKeys}/%u\nStrictModes no\n`);

  await using sshd = await startSshd(place);
  const login = { port: sshd.port, username: row.sftp_username, keyFile: file };
  assert.equal((await sftp(place.dir, login, ['pwd'])).code, 0);
  assert.equal(host.isApplied(row), false);
  await host.apply(row);
  assert.deepEqual([lstatSync(stored).gid, lstatSync(stored).mode & 0o7777], [KEYS_ID, 0o640]);
  assert.equal((await sftp(place.dir, login, ['pwd'])).code, 0);

  // What sshd itself takes the configuration for.
  await prepareSshd(sshd.config, createLog('silent'));
  const configuration = join(paths.sshd, 'sshd_config');
  const settings = execFileSync('sh', [IN_NAMESPACE, paths.sshd, '/usr/sbin/sshd', '-T', '-f', configuration], {
    encoding: 'utf8',
  });
  for (const setting of [
    'authorizedkeysfile none',
    `authorizedkeyscommand ${paths.sshd}/authorized-keys %u %f`,
    'authorizedkeyscommanduser berth-keys',
    'strictmodes yes',
  ])
    assert.ok(settings.split('\n').includes(setting), setting);
});
