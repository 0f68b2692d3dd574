/** The users exist for our sshd only, and the machine's accounts do not exist for it (docs/design.md, decision 2). */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { sftp } from '../support/openssh-client.ts';
import { TIMEOUT_SECONDS } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { directory, keyPair, PASSWORD } from '../support/sftp-user.ts';
import { sharedSshd } from '../support/shared-berth.ts';

const shared = sharedSshd();

const IN_NAMESPACE = fileURLToPath(new URL('../../openssh/in-namespace', import.meta.url));

test('the machine does not know an SFTP user, and is left as it was', async () => {
  const before = existsSync('/etc/userdb');
  const { place, sshd, host } = await shared();
  const row = directory();
  await host.apply(row);
  assert.equal(
    (await sftp(place.dir, { port: sshd.port, username: row.sftp_username, password: PASSWORD }, ['pwd'])).code,
    0,
  );
  assert.equal(spawnSync('getent', ['passwd', row.sftp_username]).status, 2);
  assert.equal(existsSync('/etc/userdb'), before);
  assert.doesNotMatch(readFileSync('/proc/mounts', 'utf8'), new RegExp(place.dir));
});

test('our sshd knows four locked accounts beside the SFTP users, and none of them can log in', async () => {
  const { place, sshd } = await shared();
  const inside = (...command: string[]) =>
    execFileSync('sh', [IN_NAMESPACE, sshd.paths.sshd, ...command], { encoding: 'utf8' });
  assert.deepEqual(
    inside('getent', 'passwd')
      .trim()
      .split('\n')
      .map((line) => line.split(':')[0]),
    ['root', 'sshd', 'berth-keys', 'nobody'],
  );
  assert.match(inside('getent', 'shadow'), /^([\w-]+:\*:.*\n){4}$/);
  const key = keyPair(place.dir);
  const attempts = await Promise.all(
    ['root', 'sshd', 'berth-keys', 'nobody', 'no-such-user'].map((username) => {
      // Even with a key in the place of a user's: there is no limit for them.
      copyFileSync(`${key.file}.pub`, join(sshd.paths.authorizedKeys, username));
      return sftp(place.dir, { port: sshd.port, username, password: '', keyFile: key.file }, ['pwd']);
    }),
  );
  assert.deepEqual(
    attempts.map(({ code }) => code),
    [255, 255, 255, 255, 255],
  );
});

test('a file of /etc that the machine replaces stays covered', () => {
  // What passwd(1) and useradd(8) do: a new file renamed over the old one. The machine here is a namespace of the same kind.
  using place = scratch();
  const machine = join(place.dir, 'machine', 'sshd');
  const ours = join(place.dir, 'ours', 'sshd');
  for (const base of [machine, ours]) {
    for (const folder of ['etc/machine', 'etc/userdb', 'run', '../userdb'])
      mkdirSync(join(base, folder), { recursive: true });
    writeFileSync(join(base, 'run-links'), '');
  }
  writeFileSync(join(machine, 'etc/passwd'), 'the machine');
  writeFileSync(join(machine, 'etc/stand-in'), '');
  writeFileSync(join(ours, 'etc/passwd'), 'ours');
  const steps = `
    set -e
    [ -e /etc/stand-in ] || exit 9 # never the real one, whatever is broken
    mkfifo ${place.dir}/inside ${place.dir}/go
    sh ${IN_NAMESPACE} ${ours} sh -c 'echo >${place.dir}/inside; read go <${place.dir}/go; cat /etc/passwd' &
    read inside <${place.dir}/inside
    echo replaced >/etc/passwd+ && mv /etc/passwd+ /etc/passwd
    echo go >${place.dir}/go
    wait`;
  const { stdout, stderr } = spawnSync('sh', [IN_NAMESPACE, machine, 'sh', '-c', steps], {
    encoding: 'utf8',
    timeout: TIMEOUT_SECONDS * 1000,
  });
  assert.equal(stdout, 'ours', stderr);
  assert.equal(readFileSync(join(machine, 'etc/passwd'), 'utf8'), 'replaced\n');
});
