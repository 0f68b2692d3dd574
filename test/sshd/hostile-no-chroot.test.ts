/** Without the chroot, UIDs still separate customers (docs/design.md, decision 5). */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { CREATE_ANEW, FXP, NO_ATTRIBUTES, OPEN, rawSftp } from '../support/raw-sftp.ts';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';
import { directory, hostOf, openSockets, PASSWORD } from '../support/sftp-user.ts';
import { runSshd, startSshd } from '../support/sshd.ts';

test('without ChrootDirectory a session sees the machine, but no file of another directory nor of berth', async () => {
  using place = scratch();
  const first = await startSshd(place);
  await first.stop();
  const paths = pathsOf(first.config);
  const configuration = join(paths.sshd, 'sshd_config');
  const text = readFileSync(configuration, 'utf8');
  // `-d` would not exist outside of the jail.
  const open = text.replace('ChrootDirectory %h', 'ChrootDirectory none').replace('-d /files ', '');
  assert.notEqual(open, text);
  writeFileSync(configuration, open);
  await using sshd = await runSshd(first.config);
  await using sockets = await openSockets(paths);
  await using host = hostOf(paths, sockets);
  const key = { auth_mode: 'both', public_key: 'ssh-ed25519 AAAA' } as const;
  const victim = directory(key);
  const attacker = directory(key);
  for (const row of [victim, attacker]) await host.apply(row);
  const files = join(paths.jail(victim.sftp_username), 'files');
  writeFileSync(join(files, 'secret'), 'secret', { mode: 0o666 });
  await using connection = await connect({ port: sshd.port, username: attacker.sftp_username, password: PASSWORD });
  const session = await rawSftp(connection);
  assert.ok(await session.open('/etc/machine/passwd', OPEN.read), 'the chroot is not in effect');

  const secrets = [
    join(files, 'secret'),
    join(paths.jail(victim.sftp_username), 'dev', 'log'),
    join(paths.userdb, `${victim.sftp_username}.user-privileged`),
    join(paths.authorizedKeys, victim.sftp_username),
    join(paths.authorizedKeys, attacker.sftp_username),
    join(paths.userdb, `${attacker.sftp_username}.user-privileged`),
    join(paths.hostKeys, 'ssh_host_ed25519_key'),
    join(paths.corner, 'log-1.sock'),
    '/etc/shadow',
  ];
  for (const path of secrets) {
    assert.ok(existsSync(path), path);
    assert.equal(await session.open(path, OPEN.read), undefined, path);
    assert.equal(await session.open(path, OPEN.write), undefined, path);
    for (const answer of [
      await session.rename(path, `${path}.mine`),
      await session.request(FXP.REMOVE, path),
      await session.request(FXP.SETSTAT, path, 4, 0o777),
    ]) {
      assert.ok(answer.status, path);
    }
  }
  for (const folder of [files, join(paths.jail(victim.sftp_username), 'dev'), paths.corner, paths.hostKeys]) {
    assert.ok((await session.request(FXP.OPENDIR, folder)).status, folder);
    assert.ok((await session.request(FXP.MKDIR, join(folder, 'mine'), NO_ATTRIBUTES)).status, folder);
    assert.equal(await session.open(join(folder, 'new'), CREATE_ANEW), undefined, folder);
  }
  for (const path of [
    paths.jails,
    paths.jail(attacker.sftp_username),
    paths.limits,
    paths.authorizedKeys,
    paths.userdb,
  ]) {
    assert.equal(await session.open(join(path, 'new'), CREATE_ANEW), undefined, path);
  }
  assert.equal(readFileSync(join(files, 'secret'), 'utf8'), 'secret');
  assert.ok(await session.put(join(paths.jail(attacker.sftp_username), 'files', 'own'), 'x'), 'its own folder is open');
});
