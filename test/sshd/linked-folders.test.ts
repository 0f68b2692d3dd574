/** The folders of the settings may be links, as an operator leaves them after moving one. Below them no link is followed. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readConfig } from '../../src/foundation/base/config.ts';
import { requireUsablePaths } from '../../src/foundation/base/files.ts';
import { issueKey } from '../support/berth.ts';
import { runCommand } from '../support/command-line.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { runSshd } from '../support/sshd.ts';

const KINDS = ['state', 'jails', 'run'];

/** Puts a link into the place of each folder. */
function linked(dir: string): void {
  for (const kind of KINDS) {
    mkdirSync(join(dir, `real-${kind}`), { mode: 0o755 });
    symlinkSync(`real-${kind}`, join(dir, kind));
  }
}

test('folders that are links: prepare, sshd, a login and an upload', async () => {
  const port = await freePort();
  using place = scratch({ BERTH_SFTP_PORT: String(port) });
  linked(place.dir);
  const { config, environment } = await fixedPorts(place, undefined, { BERTH_SFTP_PORT: String(port) });
  const prepare = await runCommand(environment, 'prepare');
  assert.deepEqual([prepare.status, prepare.stderr], [0, '']);
  // As scripts/lib/supervise.sh and the unit start it: by the paths of the settings.
  const sshd = await runSshd(readConfig(environment));
  await using _sshd = { [Symbol.asyncDispose]: () => sshd.kill() };
  const key = await issueKey(config);
  await using _serve = await startServe(config, environment);
  const { send } = clientOf(config, key);
  const made = await send('POST', '/directories', { json: { directory: { name: 'Acme' } } });
  const { id, sftp_username: username, sftp_password: password } = (made.json as { data: Record<string, string> }).data;
  assert.ok(existsSync(join(place.dir, 'real-jails', String(username), 'files')));
  await using connection = await connect({ port, username: String(username), password: String(password) });
  const session = await sftpSession(connection);
  await session.close(await session.open('report.csv', 'w'));
  await until('the upload is listed', async () => {
    const { json } = await send('GET', `/directories/${id}/uploads`);
    return (json as { data: unknown[] }).data.length === 1;
  });
});

test('an owner noted by a link is still the owner, and a link below the folders is refused', async () => {
  using place = scratch({ BERTH_SFTP_PORT: '2299' });
  linked(place.dir);
  const prepare = () => runCommand(place.environment, 'prepare');
  assert.equal((await prepare()).status, 0);
  const owner = join(place.dir, 'real-jails', '.berth', 'owner');
  const [inode] = readFileSync(owner, 'utf8').split(' ');
  assert.equal(readFileSync(owner, 'utf8'), `${inode} ${place.dir}/real-state\n`);
  writeFileSync(owner, `${inode} ${place.dir}/state\n`);
  assert.equal((await prepare()).status, 0);
  writeFileSync(owner, `${inode} ${place.dir}/other\n`);
  assert.match((await prepare()).stderr, /belongs to the berth whose BERTH_STATE_DIR is/);
  rmSync(owner);
  const userdb = join(place.dir, 'real-state', 'userdb');
  renameSync(userdb, `${userdb}-moved`);
  symlinkSync('userdb-moved', userdb);
  assert.match((await prepare()).stderr, /userdb is not a folder: move it away/);
});

test('a link to nothing is named', async () => {
  using place = scratch({ BERTH_SFTP_PORT: '2299' });
  symlinkSync('nothing', join(place.dir, 'state'));
  const { status, stderr } = await runCommand(place.environment, 'prepare');
  assert.equal(status, 1);
  assert.match(stderr, /\/state \(in BERTH_STATE_DIR\) is a link to a folder that does not exist: create that folder/);
});

test('a link to itself is named, for sshd and for berth', async () => {
  using place = scratch({ BERTH_SFTP_PORT: '2299' });
  symlinkSync('state', join(place.dir, 'state'));
  for (const args of [['prepare'], ['config', 'check']]) {
    const { status, stdout, stderr } = await runCommand(place.environment, ...args);
    assert.notEqual(status, 0, args.join(' '));
    const said = `${stdout}${stderr}`;
    assert.match(said, /BERTH_STATE_DIR: the links at \S+\/state lead back to themselves: replace them by a folder/);
    assert.doesNotMatch(said, /ELOOP|\n {4}at /);
  }
});

test('a file at or above the path of a folder is named with the setting, in one line', async () => {
  using place = scratch({ BERTH_SFTP_PORT: '2299' });
  const file = join(place.dir, 'file');
  writeFileSync(file, '');
  const settings = [
    ['BERTH_JAIL_DIR', 'folder'],
    ['BERTH_JAIL_DIR', ''],
    ['BERTH_RUNTIME_DIR', 'folder'],
    ['BERTH_STATE_DIR', 'folder/below'],
  ] as const;
  const messageOf = (setting: string): string => `${setting}: ${file} is not a folder: choose another place`;
  for (const [setting, below] of settings)
    assert.throws(() => requireUsablePaths({ [setting]: join(file, below) }), { message: messageOf(setting) });
  // Each command says so.
  const environment = { ...place.environment, BERTH_STATE_DIR: join(file, 'folder/below') };
  for (const args of [['prepare'], ['config', 'check'], ['doctor']]) {
    const { status, stdout, stderr } = await runCommand(environment, ...args);
    assert.notEqual(status, 0, args.join(' '));
    const said = `${stdout}${stderr}`.trim();
    assert.ok(said.includes(messageOf('BERTH_STATE_DIR')), said);
    assert.doesNotMatch(said, /ENOTDIR|\n/);
  }
});
