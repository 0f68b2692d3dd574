/** New host keys: OpenSSH clients learn them while they are offered, and log in without a prompt after the old ones have gone. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { runHere } from '../support/command-line.ts';
import type { Login } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { connect } from '../support/sftp-client.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

/** Prints the password, from the environment, when ssh asks for it. */
const ASKPASS = fileURLToPath(new URL('../support/askpass', import.meta.url));

interface Key {
  readonly state: string;
  readonly type: string;
  readonly fingerprint: string;
  readonly known_hosts: string;
  readonly offered_since: string | null;
}

async function rotating() {
  const berth = await shared();
  const { place, sshd } = berth;
  const [{ login }, unused] = [await berth.directory(), await berth.directory()];
  const environment = { ...place.environment, BERTH_SFTP_PORT: String(sshd.port), BERTH_SFTP_HOST: '127.0.0.1' };
  return {
    place,
    sshd,
    login,
    unused: unused.username,
    folder: sshd.paths.hostKeys,
    berth: (...args: string[]) => runHere(environment, 'host-key', ...args),
    async keys(...args: string[]): Promise<Key[]> {
      const { status, stdout, stderr } = await runHere(environment, 'host-key', ...args, '--json');
      assert.equal(status, 0, stderr);
      return JSON.parse(stdout) as Key[];
    },
    /** The type and base64 that sshd proves itself with. */
    async proved(type = 'ed25519'): Promise<string> {
      const scanned = execFileSync('ssh-keyscan', ['-p', String(sshd.port), '-t', type, '127.0.0.1'], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      return scanned.trim();
    },
    [Symbol.asyncDispose]: () => berth[Symbol.asyncDispose](),
  };
}

/** A login as in a customer's script: nobody can answer a question. */
function logIn(dir: string, login: Login, knownHosts: string): { status: number | null; said: string } {
  const options = ['StrictHostKeyChecking=yes', `UserKnownHostsFile=${knownHosts}`, 'UpdateHostKeys=yes'];
  const rest = ['GlobalKnownHostsFile=/dev/null', 'PreferredAuthentications=password', 'NumberOfPasswordPrompts=1'];
  const args = ['-F/dev/null', ...[...options, ...rest].map((option) => `-o${option}`), '-P', String(login.port)];
  const { status, stderr } = spawnSync('sftp', [...args, `${login.username}@127.0.0.1`], {
    cwd: dir,
    input: 'pwd\n',
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], SSH_ASKPASS: ASKPASS, SSH_ASKPASS_REQUIRE: 'force', SECRET: login.password },
  });
  return { status, said: stderr };
}

/** The keys of a known_hosts file. */
const known = (file: string): string[] => readFileSync(file, 'utf8').trim().split('\n').toSorted();
const knownHosts = (keys: readonly Key[]): string[] => keys.map(({ known_hosts }) => known_hosts).toSorted();

test('a client that logs in between learns the new keys and forgets the old; one that does not is warned', async () => {
  await using berth = await rotating();
  const { place, login, folder } = berth;
  const old = await berth.keys('list');
  assert.deepEqual(
    old.map(({ state, type }) => [state, type]),
    ['ssh-ed25519', 'ecdsa-sha2-nistp256', 'ssh-rsa'].map((type) => ['in use', type]),
  );
  const [regular, absent] = [join(place.dir, 'regular'), join(place.dir, 'absent')];
  for (const file of [regular, absent]) writeFileSync(file, `${old[0]?.known_hosts}\n`);
  await using before = await connect(login);

  const both = await berth.keys('rotate');
  assert.equal(both.length, 6);
  assert.deepEqual(knownHosts(both.slice(0, 3)), knownHosts(old), 'those in use stay');
  await until('the client has learnt all of them', () => {
    const { status, said } = logIn(place.dir, login, regular);
    // sshd closes its port for a moment when it reloads.
    assert.ok(status === 0 || said.includes('Connection refused'), said);
    return known(regular).length === 6;
  });
  assert.deepEqual(known(regular), knownHosts(both));
  assert.equal(await berth.proved(), old[0]?.known_hosts, 'sshd proves itself with the old one');
  assert.deepEqual(await berth.keys('rotate'), both, 'a second rotate makes no further keys');

  const early = await berth.berth('rotate', '--finish');
  assert.equal(early.status, 1);
  // Once the uploads have heard of the login.
  await until('it names who has not been there since', async () => {
    const { stderr } = await berth.berth('rotate', '--finish');
    return stderr.includes(`, and nobody has logged in since to ${berth.unused}.`);
  });
  assert.match(early.stderr, /^berth: the new keys have been offered only since \S+, and .* or add --yes\n$/);
  assert.deepEqual(await berth.keys('list'), both);
  const longAgo = Date.now() / 1000 - 31 * 86_400;
  for (const name of readdirSync(folder).filter((file) => file.startsWith('ssh_host_next_')))
    utimesSync(join(folder, name), longAgo, longAgo);

  const after = await berth.keys('rotate', '--finish');
  assert.deepEqual(knownHosts(after), knownHosts(both.slice(3)));
  assert.equal(
    await berth.proved(),
    after[0]?.known_hosts,
    'sshd proves itself with the new one as soon as the command ends',
  );
  const { status, said } = logIn(place.dir, login, regular);
  assert.deepEqual([status, said.includes('WARNING')], [0, false], said);
  await until('the client has forgotten the old ones', () => {
    logIn(place.dir, login, regular);
    return known(regular).length === 3;
  });
  assert.deepEqual(known(regular), knownHosts(after));
  const warned = logIn(place.dir, login, absent);
  assert.equal(warned.status, 255);
  assert.match(warned.said, /REMOTE HOST IDENTIFICATION HAS CHANGED/);
  // A session from before the first step has noticed nothing.
  assert.ok(await before.sftp());
  assert.ok(!readdirSync(folder).some((name) => name.includes('next') || name.includes('new')));
});

test('one type alone, taken back again, and finished at once with --yes', async () => {
  await using berth = await rotating();
  const old = await berth.keys('list');
  const three = await berth.keys('rotate', '--type', 'rsa');
  assert.deepEqual(
    three.slice(3).map(({ state, type }) => [state, type]),
    [['next', 'ssh-rsa']],
  );
  assert.match((await berth.berth('list')).stdout, /\nnext +ssh-rsa +\d{4}-\S+Z +SHA256:\S+\n$/);
  assert.deepEqual(await berth.keys('rotate', '--cancel'), old);
  assert.deepEqual(await berth.keys('rotate', '--finish', '--yes'), old, 'nothing to finish');
  assert.equal((await berth.berth('rotate', '--type', 'dsa')).status, 2);
  assert.equal((await berth.berth('rotate', '--finish', '--cancel')).status, 2);
  await berth.keys('rotate', '--type', 'rsa');
  const { status, stdout } = await berth.berth('rotate', '--finish', '--yes');
  assert.equal(status, 0);
  assert.match(
    stdout,
    /^The new keys have replaced the old ones\. sshd \(process \d+\) has read its keys again; sessions go on\.\n/,
  );
  const now = await berth.keys('list');
  assert.deepEqual(knownHosts(now.slice(0, 2)), knownHosts(old.slice(0, 2)));
  assert.notEqual(now[2]?.known_hosts, old[2]?.known_hosts);
  await until('sshd has the new one', async () => (await berth.proved('rsa')) === now[2]?.known_hosts);
});
