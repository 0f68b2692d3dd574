/** Names that sshd's log cuts off: a line has 500 characters, and each byte beyond ASCII takes four. They count like short ones. */
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { type TestBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { CREATE_ANEW, FXP, OPEN, type RawSftp, rawSftp } from '../support/raw-sftp.ts';
import { sharedBerth } from '../support/shared-berth.ts';
import { processesOf } from '../support/user-processes.ts';

const shared = sharedBerth();

/** Access and modification time (draft-ietf-secsh-filexfer-02, section 5). */
const TIMES = [8, 1_700_000_000, 1_700_000_000] as const;

/** Longer than a stable file takes to be found. */
const PAUSE_MS = 5000;

/** 516 characters in the log. */
const LONG = '名'.repeat(43);

/** How long an upload takes, in ms: the kernel has the name while it is open, and on a busy machine berth reads the log late. */
const HOLD_MS = 2000;

/** As `put -p` does. */
async function putDated(session: RawSftp, name: string, data: string): Promise<void> {
  const handle = await session.open(name, CREATE_ANEW);
  assert.ok(handle);
  await wait(HOLD_MS);
  await session.request(FXP.WRITE, handle, 0n, data);
  await session.request(FXP.FSETSTAT, handle, ...TIMES);
  await session.request(FXP.CLOSE, handle);
}

/** `NAME SIZE` of each webhook so far. */
function announced(berth: TestBerth): string[] {
  return berth.receiver.requests.map(webhookOf).map(({ filename, size_bytes }) => `${filename} ${size_bytes}`);
}

async function isPartial(berth: TestBerth, directory: TestDirectory, bytes: number): Promise<boolean> {
  return (await berth.uploads(directory)).length === 0 && (await berth.storage(directory)) === bytes;
}

void describe('long names', { concurrency: true }, () => {
  test('cut off, and sent again as a whole with its time: announced, and again when it is sent once more', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    const first = await berth.connect(directory);
    const cut = await rawSftp(first);
    const handle = await cut.open(LONG, CREATE_ANEW);
    assert.ok(handle);
    await cut.request(FXP.WRITE, handle, 0n, 'half');
    await wait(2000);
    first.drop();
    await until('it is partial', () => isPartial(berth, directory, 4));
    await using connection = await berth.connect(directory);
    const session = await rawSftp(connection);
    for (const [index, data] of ['the whole', 'THE WHOLE'].entries()) {
      await putDated(session, LONG, data);
      await until('it is announced', () => berth.receiver.requests.length === index + 1);
      const [upload] = await berth.uploads(directory);
      const content = await berth.send('GET', `/directories/${directory.id}/uploads/${upload?.id}/content`);
      assert.equal(content.text, data);
    }
    await wait(PAUSE_MS);
    assert.deepEqual(announced(berth), [`${LONG} 9`, `${LONG} 9`]);
  });

  test('sent three times with the same size and time: three uploads', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    const session = await rawSftp(connection);
    for (let i = 0; i < 3; i++) await putDated(session, LONG, `bytes ${i}`);
    await until('all are announced', () => berth.receiver.requests.length === 3);
    await wait(PAUSE_MS);
    assert.equal(berth.receiver.requests.length, 3);
    const [upload] = await berth.uploads(directory);
    const content = await berth.send('GET', `/directories/${directory.id}/uploads/${upload?.id}/content`);
    assert.equal(content.text, 'bytes 2');
  });

  test('of two names that begin alike one is complete, the other is cut off a moment later: the latter is partial', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    const connection = await berth.connect(directory);
    const session = await rawSftp(connection);
    const names = [`${LONG}-whole`, `${LONG}-cut`] as const;
    const handles = await Promise.all(names.map((name) => session.open(name, CREATE_ANEW)));
    for (const handle of handles) {
      assert.ok(handle);
      await session.request(FXP.WRITE, handle, 0n, 'data');
    }
    assert.ok(handles[0]);
    await session.request(FXP.CLOSE, handles[0]);
    await wait(300);
    connection.drop();
    await until('both are counted', async () => (await berth.storage(directory)) === 8);
    await wait(PAUSE_MS);
    assert.deepEqual(announced(berth), [`${names[0]} 4`]);
    assert.deepEqual(
      (await berth.uploads(directory)).map(({ filename }) => filename),
      [names[0]],
    );
  });

  test('renamed from a temporary name to one of 200 bytes, and the session ends at once: announced under that', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    const names = Array.from({ length: 6 }, (_, i) => `${'n'.repeat(240)}-${i}`);
    for (const name of names) {
      const connection = await berth.connect(directory);
      const session = await rawSftp(connection);
      await putDated(session, `${name}.partial`, 'data');
      await until('it waits', async () => (await berth.storage(directory)) === 4 * (names.indexOf(name) + 1));
      assert.equal((await session.rename(`${name}.partial`, name)).status, 0);
      await connection[Symbol.asyncDispose]();
    }
    await until('all are announced', () => berth.receiver.requests.length >= names.length);
    await wait(PAUSE_MS);
    assert.deepEqual(announced(berth).toSorted(), names.map((name) => `${name} 4`).toSorted());
  });

  test('renamed from a temporary name, and sent again under the final one a moment later: two uploads', async () => {
    const names = [`${LONG}.csv`, `${'短'.repeat(20)}.csv`, `${'n'.repeat(240)}.csv`];
    await using berth = await shared();
    const directories = await Promise.all(names.map(async (name) => ({ name, directory: await berth.directory() })));
    const sent = directories.map(async ({ name, directory }) => {
      await using connection = await berth.connect(directory);
      const session = await rawSftp(connection);
      for (const [at, data] of [
        [`${name}.part`, 'first'],
        [name, 'second'],
      ] as const) {
        const handle = await session.open(at, CREATE_ANEW);
        assert.ok(handle);
        await wait(HOLD_MS);
        await session.request(FXP.WRITE, handle, 0n, data);
        await session.request(FXP.CLOSE, handle);
        if (at !== name) assert.equal((await session.replace(at, name)).status, 0);
        // What is overwritten before berth has looked at it is one upload.
        await until('it is announced', () => announced(berth).includes(`${name} ${data.length}`));
      }
    });
    await Promise.all(sent);
    await until('all are announced', () => berth.receiver.requests.length >= 2 * names.length);
    await wait(PAUSE_MS);
    assert.deepEqual(announced(berth).toSorted(), names.flatMap((name) => [`${name} 5`, `${name} 6`]).toSorted());
  });

  test('small files that are sent again at once, and read: announced as often as they were sent', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    const names = Array.from({ length: 20 }, (_, i) => `${i}${LONG}`);
    const sessions = ['a', 'b', 'c', 'd'].map(async (client) => {
      await using connection = await berth.connect(directory);
      const session = await rawSftp(connection);
      for (let i = 0; i < 3; i++) {
        for (const name of names) {
          assert.ok(await session.put(client + name, `${i} ${name}`));
          await session.request(FXP.SETSTAT, client + name, ...TIMES);
        }
      }
      for (const name of names) {
        const handle = await session.open(client + name, OPEN.read);
        assert.ok(handle);
        await session.request(FXP.CLOSE, handle);
      }
    });
    await Promise.all(sessions);
    await until('all are announced', () => announced(berth).length >= sessions.length * names.length * 3);
    await wait(PAUSE_MS);
    const filenames = berth.receiver.requests.map(webhookOf).map(({ filename }) => filename);
    const times = ['a', 'b', 'c', 'd'].flatMap((client) =>
      names.map((name) => filenames.filter((each) => each === client + name).length),
    );
    assert.deepEqual(
      times,
      times.map(() => 3),
    );
  });

  test('dated after its close, as rclone does: announced once', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    const session = await rawSftp(connection);
    assert.ok(await session.put(LONG, 'data'));
    assert.equal((await session.request(FXP.SETSTAT, LONG, ...TIMES)).status, 0);
    await until('it is announced', () => berth.receiver.requests.length === 1);
    await wait(PAUSE_MS);
    assert.deepEqual(announced(berth), [`${LONG} 4`]);
  });

  test('another session sets times: a complete file is announced once, and a partial one stays partial', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    const first = await berth.connect(directory);
    const cut = await rawSftp(first);
    assert.ok(await cut.put(`${LONG}-whole`, 'the whole'));
    const handle = await cut.open(`${LONG.replace('名', '半')}-half`, CREATE_ANEW);
    assert.ok(handle);
    await cut.request(FXP.WRITE, handle, 0n, 'half');
    await until('it is announced', () => berth.receiver.requests.length === 1);
    first.drop();
    await until('both are counted', async () => (await berth.storage(directory)) === 'the wholehalf'.length);
    await wait(PAUSE_MS);
    await using connection = await berth.connect(directory);
    const session = await rawSftp(connection);
    for (const name of [`${LONG}-whole`, `${LONG.replace('名', '半')}-half`])
      assert.equal((await session.request(FXP.SETSTAT, name, ...TIMES)).status, 0);
    await wait(PAUSE_MS);
    assert.deepEqual(announced(berth), [`${LONG}-whole 9`]);
    assert.equal((await berth.uploads(directory)).length, 1);
  });

  test('a process that is killed right after its open and write leaves a partial file', async () => {
    await using berth = await shared();
    const directories = await Promise.all(Array.from({ length: 6 }, () => berth.directory()));
    for (const directory of directories) {
      const session = await rawSftp(await berth.connect(directory));
      assert.ok(await session.put(`${LONG}-whole`, 'the whole'));
      const handle = await session.open(`${LONG}-half`, CREATE_ANEW);
      assert.ok(handle);
      await session.request(FXP.WRITE, handle, 0n, 'half');
      process.kill(processesOf(statSync(directory.files).uid).server, 'SIGKILL');
    }
    for (const directory of directories) {
      await until('both are counted', async () => (await berth.storage(directory)) === 'the wholehalf'.length);
    }
    await wait(PAUSE_MS);
    // If the process had gone before berth could ask the kernel, the whole file is withheld, too.
    const uploads = await Promise.all(directories.map((directory) => berth.uploads(directory)));
    assert.ok(uploads.flat().every(({ filename }) => filename === `${LONG}-whole`));
    assert.deepEqual(
      announced(berth),
      uploads.flat().map(() => `${LONG}-whole 9`),
    );
  });

  test('a write that is refused counts for its own file', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    const session = await rawSftp(connection);
    const whole = await session.open(LONG, CREATE_ANEW);
    const other = await session.open('o'.repeat(150), CREATE_ANEW);
    assert.ok(whole && other);
    await session.request(FXP.WRITE, whole, 0n, 'data');
    await wait(1000);
    assert.notEqual((await session.request(FXP.WRITE, other, 2n ** 63n - 1n, 'data')).status, 0);
    for (const handle of [other, whole]) await session.request(FXP.CLOSE, handle);
    await until('it is announced', () => berth.receiver.requests.length === 1);
    assert.deepEqual(announced(berth), [`${LONG} 4`]);
  });
});
