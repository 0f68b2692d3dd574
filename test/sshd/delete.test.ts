/** Specification, DELETE: credentials stop working at once, live sessions too; the files go. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { SFTPWrapper } from 'ssh2';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { startBerth } from '../support/berth.ts';
import { sftp } from '../support/openssh-client.ts';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';
import { directory, keyPair, PASSWORD } from '../support/sftp-user.ts';
import { sharedSshd } from '../support/shared-berth.ts';
import { pidsOf, processesOf } from '../support/user-processes.ts';

const shared = sharedSshd();

test('a delete ends live uploads at once, and nothing of the directory is left', async () => {
  const { place, sshd, host } = await shared();
  const [doomed, spared] = [directory(), directory()];
  for (const row of [doomed, spared]) await host.apply(row);
  const login = (row: typeof doomed) => ({ port: sshd.port, username: row.sftp_username, password: PASSWORD });

  await using idle = await connect(login(doomed));
  await using busy = await connect(login(doomed));
  await using other = await connect(login(spared));
  const upload = await busy.sftp();
  const handle = await openHandle(upload, 'half');
  const writing = writeUntilItFails(upload, handle);
  await host.remove(doomed);

  assert.equal(existsSync(sshd.paths.jail(doomed.sftp_username)), false);
  assert.deepEqual(pidsOf(doomed.uid), []);
  await Promise.all([idle.closed, busy.closed, writing]);
  assert.equal((await sftp(place.dir, login(doomed), ['pwd'])).code, 255);

  await host.drained();
  assert.deepEqual(readdirSync(sshd.paths.trash), []);
  assert.equal(existsSync(join(sshd.paths.sessions, doomed.sftp_username)), false);
  await openHandle(await other.sftp(), 'undisturbed');
});

test('a login that is under way when the delete comes does not get in', async () => {
  const { place, sshd, host } = await shared();
  const key = keyPair(place.dir);
  for (let round = 0; round < 8; round++) {
    const row = directory({ auth_mode: 'public_key', public_key: key.publicKey });
    await host.apply(row);
    const login = { port: sshd.port, username: row.sftp_username, privateKey: key.privateKey };
    const attempts = Array.from({ length: 4 }, () => connect(login));
    // At a different moment of the logins each round.
    await Promise.race([
      ...attempts.map((a) => a.catch(() => undefined)),
      new Promise((r) => setTimeout(r, round * 25)),
    ]);
    await host.remove(row);
    for (const attempt of await Promise.allSettled(attempts)) {
      if (attempt.status === 'fulfilled') await attempt.value.closed;
    }
    assert.deepEqual(pidsOf(row.uid), []);
  }
});

test('a delete ends what killed sshd processes have left: with a client, and without one', async () => {
  const { sshd, host } = await shared();
  for (const withClient of [true, false]) {
    const row = directory();
    await host.apply(row);
    await using connection = await connect({ port: sshd.port, username: row.sftp_username, password: PASSWORD });
    await openHandle(await connection.sftp(), 'half');
    const { server, network } = processesOf(row.uid);
    const [monitor = ''] = readdirSync(join(sshd.paths.sessions, row.sftp_username));
    // A process that is stopped stands for one that is busy and does not see that its client has gone.
    process.kill(server, 'SIGSTOP');
    for (const pid of withClient ? [Number(monitor)] : [Number(monitor), network]) process.kill(pid, 'SIGKILL');
    await host.remove(row);
    assert.deepEqual(pidsOf(row.uid), []);
    await connection.closed;
  }
});

function openHandle(session: SFTPWrapper, name: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    session.open(name, 'w', (error, handle) => (error ? reject(error) : resolve(handle)));
  });
}

/** Resolves when the connection refuses a write, or closes under it. */
async function writeUntilItFails(session: SFTPWrapper, handle: Buffer): Promise<void> {
  const closed = new Promise<'closed'>((resolve) => {
    session.once('close', () => resolve('closed'));
  });
  const chunk = Buffer.alloc(32_768);
  for (let position = 0; ; position += chunk.length) {
    const written = new Promise<'written' | 'failed'>((resolve) => {
      session.write(handle, chunk, 0, chunk.length, position, (error) => resolve(error ? 'failed' : 'written'));
    });
    if ((await Promise.race([written, closed])) !== 'written') return;
  }
}

test('a directory is deleted although somebody has removed the trash', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const { id, username } = await berth.directory();
  const { trash, jail } = pathsOf(berth.config);
  rmSync(trash, { recursive: true });
  assert.equal((await berth.send('DELETE', `/directories/${id}`)).status, 204);
  assert.equal(existsSync(jail(username)), false);
});
