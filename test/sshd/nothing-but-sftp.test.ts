/** A login gets SFTP and nothing else (docs/design.md, decision 6). */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import type { ExecOptions } from 'ssh2';
import { freePort } from '../support/free-port.ts';
import { sftp, ssh } from '../support/openssh-client.ts';
import { OPEN, rawSftp } from '../support/raw-sftp.ts';
import { connect } from '../support/sftp-client.ts';
import { sharedSshd } from '../support/shared-berth.ts';

const shared = sharedSshd();

test('commands, shells and terminals are refused', async () => {
  const { place, user } = await shared();
  const { login } = await user();
  // The forced command answers instead: an SFTP server that reads nothing and ends.
  for (const command of [['echo', 'I am in'], ['sh', '-c', 'echo I am in'], []]) {
    const { output } = await ssh(place.dir, login, ['-tt'], ...command);
    assert.doesNotMatch(output, /I am in/);
    assert.match(output, /PTY allocation request failed/);
  }
  await using connection = await connect(login);
  await assert.rejects(promisify(connection.client.shell.bind(connection.client))(), /pseudo-terminal/);
});

test('no port, socket, agent or display is forwarded, in either direction', async () => {
  const { place, user } = await shared();
  const { login } = await user();
  let reached = 0;
  await using target = createServer(() => reached++).listen(0, '127.0.0.1');
  await once(target, 'listening');
  const address = target.address();
  assert.ok(address !== null && typeof address === 'object');
  await using connection = await connect({ ...login, agent: join(place.dir, 'no-agent') });
  const { client } = connection;

  const forwards: [string, (done: (error?: Error | null) => void) => unknown][] = [
    ['to a port', (done) => client.forwardOut('127.0.0.1', 1, '127.0.0.1', address.port, done)],
    ['to a socket', (done) => client.openssh_forwardOutStreamLocal('/dev/log', done)],
    ['from a socket', (done) => client.openssh_forwardInStreamLocal('/files/socket', done)],
    ['agent', (done) => client.exec('x', { agentForward: true } as ExecOptions, done)],
    ['X11', (done) => client.exec('x', { x11: true }, done)],
  ];
  const port = await freePort();
  forwards.push(['from a port', (done) => client.forwardIn('127.0.0.1', port, done)]);
  for (const [name, forward] of forwards) {
    await assert.rejects(promisify(forward)(), Error, name);
  }
  assert.equal(reached, 0);
});

test('a session holds at most some thousand files open, counted for each session of a connection', async () => {
  const { user } = await shared();
  const { login } = await user();
  await using connection = await connect(login);
  const greedy = await rawSftp(connection);
  assert.ok(await greedy.put('file', 'x'));
  const handles = [];
  for (let i = 0; i < 1100; i++) handles.push(await greedy.open('file', OPEN.read));
  const held = handles.filter((handle) => handle !== undefined).length;
  assert.ok(held > 900 && held < 1024, String(held));
  const second = await rawSftp(connection);
  assert.ok(await second.open('file', OPEN.read));
});

test('a connection has ten sessions at once, and as many one after the other as it likes', async () => {
  const { user } = await shared();
  const { login } = await user();
  await using connection = await connect(login);
  const sessions = [];
  for (let i = 0; i < 10; i++) sessions.push(await connection.sftp());
  await assert.rejects(connection.sftp());
  for (let i = 0; i < 20; i++) {
    const oldest = sessions.shift();
    const gone = oldest && once(oldest, 'close');
    oldest?.end();
    await gone;
    sessions.push(await connection.sftp());
  }
});

test('no link can be made, of either kind', async () => {
  const { place, sshd, user } = await shared();
  const { row, login } = await user();
  const { code, output } = await sftp(place.dir, login, [
    'put /etc/hostname file',
    '-ln -s /etc/passwd soft',
    '-ln file hard',
    'ls',
  ]);
  assert.equal(code, 0, output);
  assert.deepEqual(readdirSync(join(sshd.paths.jail(row.sftp_username), 'files')), ['file']);

  // And at protocol level, where a client does not heed what the server announces.
  await using connection = await connect(login);
  const session = await connection.sftp();
  await assert.rejects(promisify(session.symlink.bind(session))('file', 'soft'), /Permission denied/);
  await assert.rejects(promisify(session.ext_openssh_hardlink.bind(session))('file', 'hard'));
  assert.equal(existsSync(join(sshd.paths.jail(row.sftp_username), 'files', 'hard')), false);
});
