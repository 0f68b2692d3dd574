/** Jails and state on one disk, the default, and a customer who keeps filling it: access can still be revoked. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { checkDisk } from '../../src/operating/doctor/checks/machine.ts';
import { startBerth, type TestBerth, type TestDirectory } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { connect, type Connection } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { keyPair } from '../support/sftp-user.ts';
import { loopDisk } from './loop-disk.ts';

/** SSH_FX_FAILURE, what sshd answers on a full disk (draft-ietf-secsh-filexfer-02). */
const FAILURE = 4;

/** What the offender has to write to fill the disk, in bytes. */
const LEFT = 4 * 1024 * 1024;

interface Filled extends AsyncDisposable {
  readonly berth: TestBerth;
  readonly offender: TestDirectory;
  /** Rejects when the offender can write no more, however often it tries. */
  readonly writing: Promise<void>;
}

/** A berth whose disk one customer has filled and keeps filling. */
async function filledByOffender(outside: Scratch): Promise<Filled> {
  await using parts = new AsyncDisposableStack();
  const quiet = { BERTH_LOG_LEVEL: 'silent', BERTH_RUNTIME_DIR: join(outside.dir, 'run') };
  const place = parts.use(scratch(quiet));
  parts.use(loopDisk(place.dir, { image: join(outside.dir, 'image'), mib: 64 }));
  const berth = parts.use(await startBerth(place));
  const offender = await berth.directory();
  await until('the reserve is there', () => existsSync(`${berth.config.databaseFile}.reserve`));
  // Most of the disk at once: a busy machine would take minutes for it by SFTP.
  const { bavail, bsize } = statfsSync(place.dir);
  execFileSync('fallocate', ['--length', String(bavail * bsize - LEFT), join(offender.files, 'much')]);
  const connection = await connect(offender.login);
  parts.defer(() => connection.drop());
  const writing = fill(connection);
  writing.catch(() => undefined);
  const create = () => berth.send('POST', '/directories', { json: { directory: { name: 'No room' } } });
  await until('the disk is full', async () => (await create()).status === 507);
  const owned = parts.move();
  return { berth, offender, writing, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Several handles at once, so that there is always a write under way; a refusal is only tried again. */
async function fill(connection: Connection): Promise<void> {
  const session = await sftpSession(connection);
  const one = async (name: string): Promise<void> => {
    const handle = await session.open(name, 'w');
    for (let position = 0; ;) {
      try {
        await session.write(handle, Buffer.alloc(30_000, 'x'), position);
        position += 30_000;
      } catch (error) {
        if (!isRefusal(error)) throw error;
      }
    }
  };
  await Promise.all(['a', 'b', 'c', 'd'].map(one));
}

/** An answer of the server. What else a write fails with is the end of its session. */
function isRefusal(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === FAILURE;
}

async function refused(login: Parameters<typeof connect>[0]): Promise<void> {
  await assert.rejects(connect(login), /authentication|closed/i);
}

test('DELETE answers 204 the first time, the offender is out, and the room comes back', async () => {
  using outside = scratch();
  await using filled = await filledByOffender(outside);
  const { berth, offender, writing } = filled;
  const [warned] = [...(await checkDisk(berth.config, systemClock()))].filter(({ text }) => /share a disk/.test(text));
  assert.equal(warned?.verdict, 'warn');

  assert.equal((await berth.send('DELETE', `/directories/${offender.id}`)).status, 204);
  await assert.rejects(writing);
  await refused(offender.login);
  assert.equal((await berth.send('GET', `/directories/${offender.id}`)).status, 404);
  const create = () => berth.send('POST', '/directories', { json: { directory: { name: 'Room again' } } });
  await until('there is room again', async () => (await create()).status === 201);
  await until('the reserve is there again', () => existsSync(`${berth.config.databaseFile}.reserve`));
});

test('a suspension answers 200 the first time: the sessions have ended, and the files stay', async () => {
  using outside = scratch();
  await using filled = await filledByOffender(outside);
  const { berth, offender, writing } = filled;
  const suspend = (suspended: boolean) =>
    berth.send('PATCH', `/directories/${offender.id}/access`, { json: { suspended } });
  assert.equal((await suspend(true)).status, 200);
  await assert.rejects(writing);
  await refused(offender.login);
  assert.ok(existsSync(join(offender.files, 'b')), 'the files stay');
  assert.equal((await suspend(false)).status, 200);
  await using connection = await connect(offender.login);
  await (await sftpSession(connection)).remove('a');
});

test('a change of credentials answers 200 the first time; the old ones are refused and the new one works', async () => {
  using outside = scratch();
  await using filled = await filledByOffender(outside);
  const { berth, offender } = filled;
  const { publicKey, privateKey } = keyPair(outside.dir);
  const directory = { auth_mode: 'public_key', public_key: publicKey };
  const { status } = await berth.send('PATCH', `/directories/${offender.id}`, { json: { directory } });
  assert.equal(status, 200);
  // Sessions end when the disk is too full for the change. PostgreSQL's rows are not on it, and SQLite's may just fit.
  await refused(offender.login);
  const { port, username } = offender.login;
  await using connection = await connect({ port, username, privateKey });
  const session = await sftpSession(connection);
  await session.remove('a');
  assert.ok(existsSync(join(offender.files, 'b')), 'the files stay');
});
