/** Sessions whose end was not seen, or whose sshd monitor was killed. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { allSessions } from '../../src/machine/sftp/sessions.ts';
import { startBerth, webhookOf } from '../support/berth.ts';
import { numberByHand } from '../support/by-hand.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { sftpSession } from '../support/sftp-session.ts';

test('a file that waited for a rename when berth stopped is announced when its session has ended meanwhile', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  const connection = await berth.connect(directory);
  await (await sftpSession(connection)).put('unnamed.part', 'x');
  const waiting = (): number =>
    numberByHand(berth.config, "select coalesce(max(session_pid), 0) from files where state = 'waiting'");
  await until('it waits', () => waiting() !== 0);
  const pid = waiting();
  await berth.stop();
  await connection[Symbol.asyncDispose]();
  await until('the session is over', () => !isAlive(pid));
  await berth.start();
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'unnamed.part');
  await until('it is listed', async () => (await berth.uploads(directory)).length === 1);
});

test('a session whose sshd process was killed is ended by serve, and what it left unfinished is partial', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.write(await session.open('half', 'w'), 'x');
  const [monitor] = readdirSync(join(berth.sshd.paths.sessions, directory.username));
  process.kill(Number(monitor), 'SIGKILL');
  await connection.closed;
  await until('nothing is left of it', async () => (await allSessions(berth.sshd.paths)).length === 0);
  await until('it is counted', async () => (await berth.storage(directory)) === 1);
  assert.deepEqual(await berth.uploads(directory), []);
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
