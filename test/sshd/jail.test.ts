/** What an SFTP user sees of the machine: /files, /dev with the log's socket, and nothing else. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { connect } from '../support/sftp-client.ts';
import { directory, hostOf, openSockets, PASSWORD } from '../support/sftp-user.ts';
import { sharedSshd } from '../support/shared-berth.ts';

const shared = sharedSshd();

test('a session starts in /files and can reach nothing outside its jail', async () => {
  const { sshd } = await shared();
  await using sockets = await openSockets(sshd.paths);
  await using host = hostOf(sshd.paths, sockets);
  const row = directory();
  await host.apply(row);
  await using connection = await connect({ port: sshd.port, username: row.sftp_username, password: PASSWORD });
  const session = await connection.sftp();
  const names = async (path: string) => {
    const list = await promisify(session.readdir.bind(session))(path);
    return list.map(({ filename }) => filename).toSorted();
  };
  const realpath = promisify<string, string>(session.realpath.bind(session));

  assert.equal(await realpath('.'), '/files');
  assert.deepEqual(await names('/'), ['dev', 'files']);
  assert.deepEqual(await names('/dev'), ['log']);
  assert.deepEqual(await names('/files'), []);
  assert.equal(await realpath('../../../..'), '/');
  for (const path of [
    '/etc/passwd',
    '/proc/self/root',
    '../../.berth',
    '/../../../etc/passwd',
    `../../${row.sftp_username}`,
  ]) {
    await assert.rejects(promisify(session.stat.bind(session))(path), /No such file/, path);
  }
  const mkdir = promisify(session.mkdir.bind(session) as (path: string, done: (error?: Error | null) => void) => void);
  const unlink = promisify<string>(session.unlink.bind(session));
  for (const path of ['/here', '/dev/here']) await assert.rejects(mkdir(path), /Permission denied/, path);
  await assert.rejects(unlink('/dev/log'), /Permission denied/);
  await mkdir('/files/here');
});

test('the process of a session is its user alone, with no other group, capability or open folder of the machine', async () => {
  const { user } = await shared();
  const { row, login } = await user();
  await using connection = await connect(login);
  await connection.sftp();
  const id = String(row.uid);
  const own = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => readStatus(name))
    .filter((status) => status['Uid']?.[0] === id);
  assert.notEqual(own.length, 0);
  for (const status of own) {
    assert.deepEqual(status['Uid'], [id, id, id, id]);
    assert.deepEqual(status['Gid'], [id, id, id, id]);
    assert.deepEqual(status['Groups'], [id]);
    assert.deepEqual(status['CapEff'], ['0000000000000000']);
  }
});

function readStatus(pid: string): Record<string, string[]> {
  try {
    const lines = readFileSync(join('/proc', pid, 'status'), 'utf8').split('\n');
    return Object.fromEntries(
      lines.map((line) => line.split(':\t')).map(([name, value = '']) => [name, value.split(/\s+/).filter(Boolean)]),
    );
  } catch {
    return {}; // it has ended meanwhile
  }
}
