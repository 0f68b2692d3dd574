/** A move is interrupted: where the directory's home is then, and that the same command continues. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, utimesSync } from 'node:fs';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { createLog } from '../../src/foundation/base/log.ts';
import { removeAbandoned } from '../../src/operating/nodes/move/receive.ts';
import { rehome } from '../../src/operating/nodes/move/rehome.ts';
import { prepare } from '../../src/service/prepare.ts';
import { removeCredentials, usersWithCredentials } from '../../src/machine/sftp/credentials.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { startCommand } from '../support/command-line.ts';
import { until } from '../support/poll.ts';
import { postgresOnly } from '../support/postgres.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { arrivals, filesOn, isInUseThere, type Move, moved, sharedMoves, upload } from './moving.ts';
import { letsIn } from './nodes-place.ts';

const aboutToMove = sharedMoves();

const BY = { keyId: 'operator:root', requestId: '', route: 'berth node move' };

function start({ a, ssh, directory }: Move) {
  return startCommand(a.environment, ['node', 'move', directory.id, '--to', 'b', '--ssh', ssh.command]);
}

/** It is where it was and in use; the same command moves it. */
async function goesOn({ a, b, ssh, directory, hook }: Move, announced = 3): Promise<void> {
  await until('its user comes in', () => letsIn(a, directory));
  await upload(a, directory, 'second');
  await hook.next();
  ssh.goOn();
  const { from, is_live } = await moved(a, directory, '--to', 'b', '--ssh', ssh.command);
  assert.deepEqual([from, is_live], ['a', true]);
  assert.ok(await letsIn(b, directory));
  for (const name of ['first', 'second']) assert.equal(readFileSync(join(filesOn(b, directory), name), 'utf8'), name);
  await upload(b, directory, 'third');
  await until('it is announced', () => hook.requests.length === announced);
}

test('killed while it copies: the directory is where it was, and in use', postgresOnly, async () => {
  await using move = await aboutToMove();
  move.ssh.pauseAt(2);
  const command = start(move);
  await move.ssh.paused();
  assert.ok(await letsIn(move.a, move.directory));
  command.kill('SIGKILL');
  await goesOn(move);
});

test('killed while logins are off: the user can log in again at once', postgresOnly, async () => {
  await using move = await aboutToMove();
  move.ssh.pauseAt(4);
  const command = start(move);
  await move.ssh.paused();
  assert.equal(await letsIn(move.a, move.directory), false);
  const put = { body: 'hello', headers: { 'content-type': 'text/plain' } };
  const { status } = await move.a.send('PUT', `/directories/${move.directory.id}/files/hello.txt`, put);
  assert.equal(status, 503);
  command.kill('SIGKILL');
  await goesOn(move);
});

test('killed while an upload may still end: the same, and the upload is announced', postgresOnly, async () => {
  await using move = await aboutToMove();
  const { a, directory, hook } = move;
  const { sftp_username: username, sftp_password: password } = directory;
  await using connection = await connect({ port: a.berth.sshd.port, username, password });
  const session = await sftpSession(connection);
  const handle = await session.open('slow', 'w');
  await session.write(handle, 'slow');
  const command = start(move);
  await until('it cannot log in', async () => !(await usersWithCredentials(pathsOf(a.berth.config))).has(username));
  command.kill('SIGKILL');
  await session.close(handle);
  await hook.next();
  await until('its user comes in', () => letsIn(a, directory));
  await goesOn(move, 4);
});

test('Ctrl-C while logins are off: the same', postgresOnly, async () => {
  await using move = await aboutToMove();
  move.ssh.pauseAt(4);
  const command = start(move);
  await move.ssh.paused();
  command.kill('SIGINT');
  move.ssh.goOn();
  const [status] = (await once(command, 'close')) as [number];
  assert.equal(status, 130);
  await goesOn(move);
});

test(
  'berth serve ends while nobody can log in: the command says so, and nothing has changed',
  postgresOnly,
  async () => {
    await using move = await aboutToMove();
    const { a, ssh } = move;
    ssh.pauseAt(4);
    const command = start(move);
    const said = text(command.stderr);
    await ssh.paused();
    await a.berth.stop();
    await a.berth.start();
    assert.ok(await letsIn(a, move.directory));
    ssh.goOn();
    assert.match(await said, /nothing was changed/);
    await goesOn(move);
  },
);

test(
  'the machine dies while nobody can log in: its user is let in before its sshd starts again',
  postgresOnly,
  async () => {
    await using move = await aboutToMove();
    const { a, place, directory } = move;
    move.ssh.pauseAt(4);
    const command = start(move);
    await move.ssh.paused();
    // As the power cut leaves it: without what the end of the service puts right.
    const mark = await place.db
      .selectFrom('unapplied')
      .selectAll()
      .where('directory_id', '=', directory.id)
      .executeTakeFirstOrThrow();
    command.kill('SIGKILL');
    await until('it is open again', () => letsIn(a, directory));
    await a.berth.stop();
    await place.db
      .insertInto('unapplied')
      .values(mark)
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    removeCredentials(pathsOf(a.berth.config), directory.sftp_username);
    assert.equal(await letsIn(a, directory), false);
    await prepare(a.berth.config, createLog('silent'));
    assert.ok(await letsIn(a, directory));
    await a.berth.start();
    await goesOn(move);
  },
);

test('a change while logins are off: 503, and the later home applies it', postgresOnly, async () => {
  await using move = await aboutToMove();
  const { a, b, ssh, directory } = move;
  ssh.pauseAt(4);
  const command = start(move);
  const ended = once(command, 'close');
  await ssh.paused();
  const access = { json: { suspended: true } };
  assert.equal((await a.send('PATCH', `/directories/${directory.id}/access`, access)).status, 503);
  ssh.goOn();
  assert.equal(((await ended) as [number])[0], 0);
  assert.equal(await letsIn(b, directory), false);
  const open = { json: { suspended: false } };
  assert.equal((await a.send('PATCH', `/directories/${directory.id}/access`, open)).status, 200);
  assert.ok(await letsIn(b, directory));
});

test('deleted while logins are off: it is gone, and does not move', postgresOnly, async () => {
  await using move = await aboutToMove();
  const { a, ssh, directory } = move;
  ssh.pauseAt(4);
  const command = start(move);
  const said = text(command.stderr);
  await ssh.paused();
  assert.equal((await a.send('DELETE', `/directories/${directory.id}`)).status, 204);
  ssh.goOn();
  assert.match(await said, /rsync|no longer at home on a/);
  assert.equal(await letsIn(a, directory), false);
});

test(
  'both nodes end right after the moment of the move: the files are there when the new one is back',
  postgresOnly,
  async () => {
    await using move = await aboutToMove();
    const { a, b, place, ssh, directory } = move;
    // All of a move but its end.
    ssh.pauseAt(5);
    const command = start(move);
    await ssh.paused();
    const ended = once(command, 'close');
    await rehome(place.db, { id: directory.id, from: 'a', to: 'b', by: BY }, Date.now() * 1000);
    await Promise.all([a.berth.stop(), b.berth.stop()]);
    ssh.goOn();
    await ended;

    await prepare(a.berth.config, createLog('silent'));
    assert.equal(await letsIn(a, directory), false, 'its old home refuses logins');
    await prepare(b.berth.config, createLog('silent'));
    assert.ok(await letsIn(b, directory));
    await b.berth.start();
    assert.equal(readFileSync(join(filesOn(b, directory), 'first'), 'utf8'), 'first');
    const again = await moved(a, directory, '--to', 'b');
    assert.deepEqual([again.from, again.is_live], [null, true]);
    await a.berth.start();
    await until('its old home has removed it', () => !existsSync(join(filesOn(a, directory), '..')));
    await isInUseThere(move);
  },
);

test('files that arrived for an abandoned move are removed after a week', postgresOnly, async () => {
  await using move = await aboutToMove();
  const { a, b, place, ssh, directory } = move;
  ssh.pauseAt(3);
  const command = start(move);
  await ssh.paused();
  command.kill('SIGKILL');
  const arrived = join(arrivals(b), directory.id);
  assert.ok(existsSync(join(arrived, 'files', 'first')));
  await removeAbandoned(place.db, b.berth.config);
  assert.ok(existsSync(arrived), 'the move may still go on');
  const before = Date.now() / 1000 - 8 * 86_400;
  utimesSync(arrived, before, before);
  await removeAbandoned(place.db, b.berth.config);
  assert.equal(existsSync(arrived), false);
  assert.ok(await letsIn(a, directory));
});
