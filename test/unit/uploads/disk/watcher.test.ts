/** Which jails are watched, and which changes are reported, with real files. */
import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { createLog } from '../../../../src/foundation/base/log.ts';
import { PausingWatch } from '../../../../src/arrivals/uploads/disk/jail-watcher.ts';
import { Watcher } from '../../../../src/arrivals/uploads/disk/watcher.ts';
import type { Jail } from '../../../../src/arrivals/uploads/jails.ts';
import { until } from '../../../support/poll.ts';
import { type Scratch, scratch } from '../../../support/scratch.ts';

/** How long a report that must not come is waited for, in ms. */
const REPORTED = 1000;

const USERS = ['a', 'b', 'c', 'd', 'e'];

function jail(username: string): Jail {
  return { id: `id-${username}`, sftp_username: username };
}

function watcherOf(place: Scratch, limit: number, queueLength?: number) {
  let overflows = 0;
  const reported: string[] = [];
  const unclear: string[] = [];
  const watcher = new Watcher({
    log: createLog('silent'),
    filesRoot: (username) => join(place.dir, username),
    limit,
    changed: ({ sftp_username }, path) => void reported.push(`${sftp_username}/${path}`),
    missing: ({ sftp_username }, path) => void reported.push(`-${sftp_username}/${path}`),
    unclear: ({ sftp_username }) => void unclear.push(sftp_username),
    newFolder: () => undefined,
    overflowed: () => void (overflows += 1),
    queueLength,
  });
  for (const user of USERS) mkdirSync(join(place.dir, user));
  let rounds = 0;
  return {
    watcher,
    reported,
    unclear,
    overflows: () => overflows,
    /** New files are reported from the jails of these users, and from no others. */
    async watches(...users: string[]): Promise<void> {
      const round = rounds++;
      const isReported = (user: string): boolean => reported.some((path) => path.startsWith(`${user}/new-${round}-`));
      let files = 0;
      // chokidar begins to watch in its own time.
      await until(`files of ${users.join()} are reported`, () => {
        for (const user of USERS) writeFileSync(join(place.dir, user, `new-${round}-${files}`), '');
        files += 1;
        return users.every(isReported);
      });
      await wait(REPORTED);
      assert.deepEqual(USERS.filter(isReported), users);
    },
    [Symbol.asyncDispose]: () => watcher.close(),
  };
}

test('every jail is watched up to the limit', async () => {
  using place = scratch();
  await using at = watcherOf(place, 3);
  at.watcher.begin(3);
  for (const user of ['a', 'b', 'c']) at.watcher.add(jail(user));
  assert.equal(at.watcher.isComplete(), true);
  at.watcher.add(jail('d'));
  assert.equal(at.watcher.isComplete(), false);
  await at.watches('a', 'b', 'c');
});

test('a new jail is scanned once its watch has begun: a file that is there before causes no event', async () => {
  using place = scratch();
  await using at = watcherOf(place, 3);
  at.watcher.begin(3);
  at.watcher.add(jail('a'));
  at.watcher.add(jail('b'), { isNew: true });
  await at.watches('a', 'b');
  assert.deepEqual(at.unclear, ['b']);
});

test('above the limit those with the latest sessions are watched', async () => {
  using place = scratch();
  await using at = watcherOf(place, 2);
  at.watcher.begin(5);
  for (const user of ['a', 'b', 'c', 'd', 'e']) at.watcher.add(jail(user));
  await at.watches();
  for (const user of ['a', 'b', 'a', 'c']) at.watcher.use(jail(user));
  assert.equal(at.watcher.isComplete(), false);
  await at.watches('a', 'c');
});

test('when directories have gone, the next round watches every jail again', async () => {
  using place = scratch();
  await using at = watcherOf(place, 2);
  at.watcher.begin(3);
  at.watcher.use(jail('a'));
  at.watcher.remove(jail('a'));
  at.watcher.begin(2);
  for (const user of ['b', 'c']) at.watcher.add(jail(user));
  assert.equal(at.watcher.isComplete(), true);
  await at.watches('b', 'c');
});

test('a jail with very many folders is given up and scanned, and watched again when it has few', async () => {
  using place = scratch();
  await using at = watcherOf(place, 5);
  at.watcher.begin(2);
  for (let i = 0; i < 1100; i++) mkdirSync(join(place.dir, 'a', `folder-${i}`));
  for (const user of ['a', 'b']) at.watcher.add(jail(user));
  await until('it is given up', () => at.watcher.crowded().length === 1);
  assert.deepEqual([at.watcher.crowded(), at.unclear], [[jail('a')], ['a']]);
  await at.watches('b');
  at.watcher.use(jail('a'));
  await at.watches('b');
  for (let i = 0; i < 1100; i++) rmSync(join(place.dir, 'a', `folder-${i}`), { recursive: true });
  at.watcher.scanned(jail('a'), 0);
  assert.deepEqual(at.watcher.crowded(), []);
  await at.watches('a', 'b');
});

test('a name that is not UTF-8 is for a scan to find', async () => {
  using place = scratch();
  await using at = watcherOf(place, 5);
  at.watcher.begin(1);
  at.watcher.add(jail('a'));
  let files = 0;
  await until('it is reported', () => {
    writeFileSync(Buffer.concat([Buffer.from(join(place.dir, 'a', `name-${files++}-`)), Buffer.from([0xff])]), '');
    return at.unclear.includes('a');
  });
});

test('beside a file that changes all the time, each new file is noticed, and so is the end of the changes', async () => {
  using place = scratch();
  await using at = watcherOf(place, 5);
  at.watcher.begin(1);
  at.watcher.add(jail('a'));
  const folder = join(place.dir, 'a', 'busy');
  mkdirSync(folder);
  const { reported } = at;
  await until('it watches', () => {
    writeFileSync(join(folder, 'first'), String(Math.random()));
    return reported.includes('a/busy/first');
  });
  const began = performance.now();
  const names = Array.from({ length: 200 }, (_, index) => `file-${index}`);
  for (const name of names) {
    await wait(1);
    writeFileSync(join(folder, name), 'data');
    for (let time = 0; time < 10; time += 1) appendFileSync(join(folder, 'log'), 'x');
  }
  // Nothing has been reported since the last change: this thread has not waited.
  const looked = reported.filter((path) => path === 'a/busy/log').length;
  const windows = 1 + Math.ceil((performance.now() - began) / 1000);
  assert.ok(
    looked <= 21 * windows,
    `${looked} of 2,000 changes reported, at most 20 in each of ${windows} s and its end`,
  );
  await until('each is seen', () => names.every((name) => reported.includes(`a/busy/${name}`)));
  await until('the end is seen', () => reported.filter((path) => path === 'a/busy/log').length > looked);
});

test('events that the kernel dropped are noticed, and a folder whose event was among them is watched after a scan', async () => {
  using place = scratch();
  await using at = watcherOf(place, 5, 2000);
  at.watcher.begin(1);
  at.watcher.add(jail('a'));
  await at.watches('a');
  assert.deepEqual([at.overflows(), at.unclear], [0, []]);
  const root = join(place.dir, 'a');
  // More events than the kernel's queue holds while nobody reads it.
  for (let i = 0; i < 20_000; i += 1) {
    writeFileSync(join(root, 'same'), '');
    rmSync(join(root, 'same'));
  }
  mkdirSync(join(root, 'dark'));
  await until('it is noticed', () => at.overflows() > 0 && at.unclear.includes('a'));
  // Its event may have been read all the same, or be the last that was dropped.
  await wait(3000);
  at.watcher.scanned(jail('a'), 1);
  let files = 0;
  await until('it is watched', () => {
    writeFileSync(join(root, 'dark', `seen-${files++}`), '');
    return at.reported.some((path) => path.startsWith('a/dark/seen-'));
  });
});

test('a flood is watched only until it is noticed; then the jail is compared with the disk, and watched again', async () => {
  using place = scratch();
  const root = join(place.dir, 'a');
  mkdirSync(root);
  const [ignore, heard, compared, changed] = [() => undefined, [0], [0], new Set<string>()];
  const counted = (count: number[]) => () => void (count[0] = (count[0] ?? 0) + 1);
  /** On a machine that takes longer for the events than the time in which they are counted. */
  const slowly = (): void => {
    for (const over = performance.now() + 0.6; performance.now() < over;);
    counted(heard)();
  };
  const ready = Promise.withResolvers<void>();
  const watch = new PausingWatch(root, {
    heard: slowly,
    unclear: counted(compared),
    changed: (path) => void changed.add(path),
    missing: ignore,
    newFolder: ignore,
    ready: ready.resolve,
    failed: assert.ifError,
    crowded: ignore,
  });
  await using _closed = { [Symbol.asyncDispose]: () => watch.close() };
  await ready.promise;
  for (let i = 0; i < 5000; i += 1) writeFileSync(join(root, `flood-${i}`), 'data');
  await until('it is compared', () => compared[0] === 1);
  assert.ok((heard[0] ?? 0) <= 2100, `${heard[0]} events were heard, of 10,000`);
  let files = 0;
  await until('it is watched again', () => {
    writeFileSync(join(root, `seen-${files++}`), '');
    return [...changed].some((path) => path.startsWith('seen-'));
  });
});

test('a watch that does not have all folders is renewed, and the jail scanned again, once for the same folders', async () => {
  using place = scratch();
  await using at = watcherOf(place, 5);
  at.watcher.begin(1);
  at.watcher.add(jail('a'));
  await at.watches('a');
  await wait(3000);
  at.watcher.scanned(jail('a'), 0);
  await wait(REPORTED);
  assert.deepEqual(at.unclear, []);
  // Simulates a new folder whose event was dropped.
  at.watcher.scanned(jail('a'), 1);
  await until('it is scanned again', () => at.unclear.length === 1);
  await wait(3000);
  at.watcher.scanned(jail('a'), 1);
  await wait(REPORTED);
  assert.deepEqual(at.unclear, ['a']);
  await at.watches('a');
});

test('names that chokidar cannot look at, however many, are one line of the log a minute', async () => {
  using place = scratch();
  const lines: string[] = [];
  const root = join(place.dir, 'a');
  mkdirSync(root);
  const unclear: string[] = [];
  const watcher = new Watcher({
    log: createLog('warn', { write: (line) => void lines.push(line) }),
    filesRoot: (username) => join(place.dir, username),
    limit: 1,
    changed: () => undefined,
    missing: () => undefined,
    unclear: ({ id }) => void unclear.push(id),
    newFolder: () => undefined,
    overflowed: () => undefined,
  });
  await using _closed = { [Symbol.asyncDispose]: () => watcher.close() };
  watcher.begin(1);
  watcher.use(jail('a'));
  const name = (number: number): Buffer =>
    Buffer.concat([Buffer.from(`${root}/${String(number).padStart(5, '0')}`), Buffer.alloc(250, 0xff)]);
  let made = 0;
  await until('the watcher has failed', () => {
    writeFileSync(name(made++), '');
    return lines.length > 0;
  });
  for (let i = 0; i < 100; i += 1) writeFileSync(name(made++), '');
  const known = unclear.length;
  await until('all are seen', () => unclear.length >= known + 100);
  assert.equal(lines.length, 1, lines.join(''));
});
