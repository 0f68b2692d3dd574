/** Announced files whose bytes change while name, size and time stay the same: berth notices every change. */
import assert from 'node:assert/strict';
import { chmodSync, copyFileSync, lutimesSync, renameSync } from 'node:fs';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { type TestBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { CREATE_ANEW, FXP, OPEN, rawSftp, type RawSftp } from '../support/raw-sftp.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

/** Access and modification time (draft-ietf-secsh-filexfer-02, section 5). */
const TIMES = [8, 1_700_000_000, 1_700_000_000] as const;

/** A new size. */
const sizeOf = (bytes: bigint) => [1, bytes] as const;

/** Longer than a stable file takes to be found. */
const PAUSE_MS = 4000;

interface Announced extends AsyncDisposable {
  readonly berth: TestBerth;
  readonly directory: TestDirectory;
  readonly session: RawSftp;
  readonly id: string | undefined;
  /** Cuts the connection. */
  drop(): void;
  content(id: string | undefined): Promise<{ status: number; text: string }>;
}

/** An announced file `a` of nine bytes, with a time that a client has set. */
async function announced(): Promise<Announced> {
  await using stack = new AsyncDisposableStack();
  const berth = stack.use(await shared());
  const directory = await berth.directory();
  const connection = stack.use(await berth.connect(directory));
  const session = await rawSftp(connection);
  const handle = await session.open('a', CREATE_ANEW);
  assert.ok(handle);
  await session.request(FXP.WRITE, handle, 0n, 'old bytes');
  await session.request(FXP.FSETSTAT, handle, ...TIMES);
  await session.request(FXP.CLOSE, handle);
  assert.equal(webhookOf(await berth.receiver.next()).size_bytes, 9);
  const [upload] = await berth.uploads(directory);
  const owned = stack.move();
  return {
    berth,
    directory,
    session,
    id: upload?.id,
    drop: () => connection.drop(),
    async content(id) {
      const answer = await berth.send('GET', `/directories/${directory.id}/uploads/${id}/content`);
      return { status: answer.status, text: answer.text };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Whether the file is held back as one that was cut off. */
async function isPartial({ berth, directory }: Announced): Promise<boolean> {
  return (await berth.uploads(directory)).length === 0 && (await berth.storage(directory)) === 9;
}

void describe('overwritten', { concurrency: true }, () => {
  test('with as many bytes and the time of before, and cut off: partial', async () => {
    await using at = await announced();
    const { session } = at;
    const handle = await session.open('a', OPEN.write);
    assert.ok(handle);
    await session.request(FXP.WRITE, handle, 0n, 'new bytes');
    await session.request(FXP.FSETSTAT, handle, ...TIMES);
    at.drop();
    await until('it is partial', () => isPartial(at));
    assert.notEqual((await at.content(at.id)).status, 200);
  });

  test('by a handle that is renamed over it and cut off: partial', async () => {
    await using at = await announced();
    const { session } = at;
    const handle = await session.open('b', CREATE_ANEW);
    assert.ok(handle);
    await session.request(FXP.WRITE, handle, 0n, 'new bytes');
    await session.request(FXP.FSETSTAT, handle, ...TIMES);
    assert.equal((await session.replace('b', 'a')).status, 0);
    await wait(100);
    at.drop();
    await until('it is partial', () => isPartial(at));
    assert.notEqual((await at.content(at.id)).status, 200);
  });

  test('resized, by name and by a handle: a new upload each time, whatever its time says', async () => {
    await using at = await announced();
    const { berth, session, directory } = at;
    assert.equal((await session.request(FXP.SETSTAT, 'a', ...sizeOf(3n))).status, 0);
    await session.request(FXP.SETSTAT, 'a', ...TIMES);
    const shorter = webhookOf(await berth.receiver.next());
    assert.deepEqual([shorter.filename, shorter.size_bytes], ['a', 3]);
    const handle = await session.open('a', OPEN.write);
    assert.ok(handle);
    assert.equal((await session.request(FXP.FSETSTAT, handle, ...sizeOf(9n))).status, 0);
    await session.request(FXP.FSETSTAT, handle, ...TIMES);
    await session.request(FXP.CLOSE, handle);
    const longer = webhookOf(await berth.receiver.next());
    assert.deepEqual([longer.filename, longer.size_bytes], ['a', 9]);
    // Shorter, and as long as before: other bytes.
    void session.request(FXP.SETSTAT, 'a', ...sizeOf(1n));
    void session.request(FXP.SETSTAT, 'a', ...sizeOf(9n));
    await session.request(FXP.SETSTAT, 'a', ...TIMES);
    assert.equal(webhookOf(await berth.receiver.next()).size_bytes, 9);
    const [upload] = await berth.uploads(directory);
    assert.ok(upload && upload.id !== at.id);
    assert.deepEqual(await at.content(upload.id), { status: 200, text: `o${'\0'.repeat(8)}` });
    await wait(PAUSE_MS);
    assert.equal(berth.receiver.requests.length, 4);
  });

  test('only touched, by its user and by an administrator: the same upload, and it can be fetched at once', async () => {
    await using at = await announced();
    const { berth, session, directory, id } = at;
    const path = `${directory.files}/a`;
    const steps: (() => unknown)[] = [
      () => session.request(FXP.SETSTAT, 'a', 8, 1_600_000_000, 1_600_000_000),
      () => session.request(FXP.SETSTAT, 'a', 4, 0o600),
      () => session.rename('a', 'b'),
      () => session.rename('b', 'a'),
      () => chmodSync(path, 0o640),
      () => lutimesSync(path, 1_650_000_000, 1_650_000_000),
      () => {
        copyFileSync(path, `${path}.copy`);
        lutimesSync(`${path}.copy`, 1_650_000_000, 1_650_000_000);
        renameSync(`${path}.copy`, path);
      },
    ];
    for (const step of steps) {
      await step();
      // The log of a rename may be read a moment later.
      await until(String(step), async () => (await at.content(id)).status === 200, 10);
      assert.equal((await at.content(id)).text, 'old bytes');
    }
    const handle = await session.open('a', OPEN.write);
    assert.ok(handle);
    await session.request(FXP.CLOSE, handle);
    await wait(PAUSE_MS);
    assert.deepEqual(
      (await berth.uploads(directory)).map((upload) => upload.id),
      [id],
    );
    assert.equal(berth.receiver.requests.length, 1);
  });
});
