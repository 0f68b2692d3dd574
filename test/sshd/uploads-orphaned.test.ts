/** A file under a temporary name whose session ended while berth was down is announced all the same. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Sqlite from 'better-sqlite3';
import { startBerth, webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { sftpSession } from '../support/sftp-session.ts';

test('what waited for a rename when berth stopped is announced when its session has ended meanwhile', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  const connection = await berth.connect(directory);
  await (await sftpSession(connection)).put('unnamed.part', 'x');
  const waiting = (): number | undefined => {
    const sqlite = new Sqlite(berth.config.databaseFile, { readonly: true });
    const pid = sqlite.prepare<[], number>("select session_pid from files where state = 'waiting'").pluck().get();
    sqlite.close();
    return pid;
  };
  await until('it waits', () => waiting() !== undefined);
  const pid = waiting() ?? 0;
  await berth.stop();
  await connection[Symbol.asyncDispose]();
  await until('the session is over', () => !isAlive(pid));
  await berth.start();
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'unnamed.part');
  await until('it is listed', async () => (await berth.uploads(directory)).length === 1);
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
