/**
 * `max_connections` is exact (docs/design.md, decision 4): also when everybody logs in at the same moment. Logins over the limit are
 * counted in a file that stays small, however often somebody tries.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { allSessions, liveSessions } from '../../src/machine/sftp/sessions.ts';
import { ssh } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { connect, type Connection } from '../support/sftp-client.ts';
import { directory, keyPair, PASSWORD } from '../support/sftp-user.ts';
import { processesOf } from '../support/user-processes.ts';
import { sharedSshd } from '../support/shared-berth.ts';

const shared = sharedSshd();

test('exactly three of ten simultaneous logins get in at a limit of three', async () => {
  const { place, sshd, host } = await shared();
  await using stack = new AsyncDisposableStack();
  const key = keyPair(place.dir);
  const row = directory({ auth_mode: 'both', public_key: key.publicKey, max_connections: 3 });
  await host.apply(row);
  const login = { port: sshd.port, username: row.sftp_username };
  const attempts = await Promise.allSettled(
    Array.from({ length: 10 }, (_, i) =>
      connect(i % 2 === 0 ? { ...login, password: PASSWORD } : { ...login, privateKey: key.privateKey }),
    ),
  );
  const live = attempts.flatMap((attempt) => (attempt.status === 'fulfilled' ? [stack.use(attempt.value)] : []));
  assert.equal(live.length, 3);
});

test('the limit can change under live sessions, and each that ends makes room, however it ends', async () => {
  const { place, sshd, host } = await shared();
  await using stack = new AsyncDisposableStack();
  const row = directory({ max_connections: 1 });
  const login = { port: sshd.port, username: row.sftp_username, password: PASSWORD };
  const open = async (): Promise<Connection> => stack.use(await connect(login));

  await host.apply(row);
  const first = await open();
  const refused = await ssh(place.dir, login, ['-s'], 'sftp');
  assert.equal(refused.code, 255);
  assert.match(refused.output, /^Too many connections/m);
  // As docs/sftp-users.md explains it: sshd has no other words for what PAM refuses after a right password.
  const words = `Failed password for ${row.sftp_username} .*\\n.*Access denied for user ${row.sftp_username} by PAM account`;
  await until('sshd has logged it', () => new RegExp(words).test(sshd.output()));

  await host.apply({ ...row, max_connections: 2 });
  await open();
  await assert.rejects(open());

  const sessions = join(sshd.paths.sessions, row.sftp_username);
  first.drop();
  await until('the dropped connection has made room', () =>
    open().then(
      () => true,
      () => false,
    ),
  );
  // The login has cleaned up: one file per live connection, none for the one that has ended.
  assert.equal(readdirSync(sessions).length, 2);

  await host.apply({ ...row, max_connections: 1 });
  await assert.rejects(open());
});

test('a session whose monitor was killed counts, is listed, and is ended', async () => {
  const { sshd, host } = await shared();
  await using stack = new AsyncDisposableStack();
  const row = directory({ max_connections: 1 });
  await host.apply(row);
  const login = { port: sshd.port, username: row.sftp_username, password: PASSWORD };
  const open = async (): Promise<Connection> => stack.use(await connect(login));
  const sessions = async () => (await allSessions(sshd.paths)).filter(({ username }) => username === row.sftp_username);
  const refused = async (): Promise<void> => {
    await assert.rejects(open());
    // Also by logins that come after one that has checked.
    await assert.rejects(open());
    assert.equal((await sessions()).length, 1);
  };
  const monitor = (): number => liveSessions(sshd.paths, row.sftp_username)[0]?.pid ?? 0;

  const first = await open();
  await first.sftp();
  process.kill(monitor(), 'SIGKILL');
  await refused();
  await host.endUnwatched();
  assert.equal((await sessions()).length, 1, 'it may be ending just now');
  await host.endUnwatched();
  await first.closed;
  await until('nothing is left', async () => (await sessions()).length === 0);

  const second = await open();
  await second.sftp();
  const { server, network } = processesOf(row.uid);
  process.kill(server, 'SIGSTOP'); // as if it were busy
  for (const pid of [monitor(), network]) process.kill(pid, 'SIGKILL');
  await second.closed;
  await refused();
  for (let look = 0; look < 2; look++) await host.endUnwatched();
  await until('nothing is left', async () => (await sessions()).length === 0);
  await open();
  assert.deepEqual(readdirSync(join(sshd.paths.sessions, row.sftp_username)), [String(monitor())]);
});

test('below the limit a login starts no program: nothing but the hook itself', async () => {
  const {
    sshd: { paths },
    host,
  } = await shared();
  const row = directory({ max_connections: 2 });
  await host.apply(row);
  const sessions = join(paths.sessions, row.sftp_username);
  mkdirSync(sessions);
  const env = { PATH: '/nonexistent', PAM_USER: row.sftp_username, PAM_RHOST: '192.0.2.1' };
  // This process stands for the monitor.
  const { status, stderr } = spawnSync('/bin/sh', [join(paths.sshd, 'admit')], { env, encoding: 'utf8' });
  assert.deepEqual([status, stderr], [0, '']);
  assert.deepEqual(readdirSync(sessions), [String(process.pid)]);
  assert.deepEqual(
    liveSessions(paths, row.sftp_username).map(({ pid, address }) => [pid, address]),
    [[process.pid, '192.0.2.1']],
  );
  rmSync(join(sessions, String(process.pid))); // the sessions that are left are ended with sshd
});

/** In bytes (openssh/admit). */
const MOST_COUNTED = 1024 * 1024;

test('the count of denied logins grows up to 1 MiB and then starts again', async () => {
  const { sshd, host } = await shared();
  const row = directory({ max_connections: 1 });
  await host.apply(row);
  const login = { port: sshd.port, username: row.sftp_username, password: PASSWORD };
  const { deniedLogins } = sshd.paths;
  await using _first = await connect(login);
  writeFileSync(deniedLogins, '');
  truncateSync(deniedLogins, MOST_COUNTED - 1);
  const sizes: number[] = [];
  for (let i = 0; i < 3; i++) {
    await assert.rejects(connect(login));
    sizes.push(statSync(deniedLogins).size);
  }
  assert.deepEqual(sizes, [MOST_COUNTED, 0, 1]);
  // All at once: no count is lost, and no denied login gets in.
  await Promise.all(Array.from({ length: 8 }, () => assert.rejects(connect(login))));
  assert.equal(statSync(deniedLogins).size, 9);
});
