/** Scans of every directory: what they find, and what waits for them. */
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { createBackground } from '../../../../src/foundation/base/background.ts';
import { openDatabase, openReads } from '../../../../src/foundation/db/open.ts';
import { createLog } from '../../../../src/foundation/base/log.ts';
import { Scanner, type ScannerOptions } from '../../../../src/arrivals/uploads/disk/scanner.ts';
import { Watcher } from '../../../../src/arrivals/uploads/disk/watcher.ts';
import { jailFiles } from '../../../../src/arrivals/uploads/file-path.ts';
import { JailQueries } from '../../../../src/arrivals/uploads/jails.ts';
import { fill } from '../../../bench/filled.ts';
import { firstAccount } from '../../../bench/served.ts';
import { until } from '../../../support/poll.ts';
import { type Scratch, scratch } from '../../../support/scratch.ts';

const FILES = 250;

test('a second request for the first scan of everything waits for that scan, also when it is over', async () => {
  using place = scratch();
  mkdirSync(place.config.stateDir, { recursive: true });
  const database = await openDatabase(place.config.database);
  const log = createLog('silent');
  const ignore = (): void => undefined;
  const heard = { changed: ignore, missing: ignore, unclear: ignore, newFolder: ignore, overflowed: ignore };
  const watcher = new Watcher({ log, filesRoot: String, limit: 1, ...heard });
  let rounds = 0;
  const scanner = new Scanner({
    log,
    background: createBackground(log),
    jails: {
      count: async () => 0,
      byId: async () => undefined,
      async after() {
        rounds += 1;
        return [];
      },
    },
    watcher,
    database,
    jailDir: '',
    take: async () => undefined,
    tooDeep: ignore,
  });
  await Promise.all([scanner.coverAll(), scanner.coverAll()]);
  await scanner.coverAll();
  assert.equal(rounds, 1);
  await scanner.close();
  await watcher.close();
  await database.close();
});

test('finds new, changed and missing files in any folder, whatever their names, and follows no link', async () => {
  using place = scratch();
  await using at = await scanningPlace(place, { directories: 3, filesEach: FILES });
  await at.scanner.coverAll();
  assert.deepEqual(at.found, []);

  const root = at.root('bench-1');
  mkdirSync(join(root, 'deep', 'er'), { recursive: true });
  writeFileSync(Buffer.concat([Buffer.from(join(root, 'deep', 'er', 'new-')), Buffer.from([0xff])]), '');
  writeFileSync(join(root, 'file-7'), 'changed');
  unlinkSync(join(root, 'file-9'));
  symlinkSync(at.root('bench-2'), join(root, 'link'));
  at.scanner.request(await at.idOf('bench-1'));
  const expected = ['differs bench-1 deep/er/new-\xff', 'differs bench-1 file-7', 'missing bench-1 file-9'];
  await until('they are found', () => at.found.length >= expected.length);
  assert.deepEqual(new Set(at.found), new Set(expected));
  assert.equal(at.found.length, expected.length);
});

test('hands over what it finds in lots, and waits while they are on their way to the database', async () => {
  using place = scratch();
  let lots = 0;
  let underWay = 0;
  await using at = await scanningPlace(place, {
    directories: 3,
    filesEach: FILES,
    async taking() {
      lots += 1;
      underWay += 1;
      await wait(20);
      assert.equal(underWay, 1);
      underWay -= 1;
    },
  });
  for (let i = 0; i < FILES; i += 1) {
    unlinkSync(join(at.root('bench-0'), `file-${i}`));
    writeFileSync(join(at.root('bench-2'), `file-${i}`), 'changed');
  }
  await at.scanner.coverAll();
  assert.equal(at.found.length, 2 * FILES);
  assert.ok(lots >= 4, `${lots} lots`);
});

test('a scan fails if its findings cannot be recorded, and the next one is complete', async () => {
  using place = scratch();
  let failures = 0;
  await using at = await scanningPlace(place, {
    async taking() {
      failures += 1;
      if (failures === 1) throw new Error('no room');
    },
  });
  unlinkSync(join(at.root('bench-0'), 'file-1'));
  await at.scanner.coverAll();
  assert.equal(failures, 2);
  assert.deepEqual(at.found, ['missing bench-0 file-1']);
});

test('ends on request in the middle of a scan', async () => {
  using place = scratch();
  let closing: Promise<void> | undefined;
  await using at = await scanningPlace(place, {
    async taking() {
      closing ??= at.scanner.close();
    },
  });
  at.write('bench-0', 'new');
  at.write('bench-1', 'new');
  await at.scanner.coverAll();
  await closing;
  assert.equal(at.found.length, 1);
});

test('a file without an event is found by the next round, although everything is watched', async () => {
  using place = scratch();
  await using at = await scanningPlace(place, { round: 100, pausesPerWork: 0 });
  await at.scanner.coverAll();
  assert.equal(at.watcher.isComplete(), true);
  at.write('bench-1', 'unseen');
  await until('it is found', () => at.found.includes('differs bench-1 unseen'));
});

test('when events were lost, a round begins that would have come an hour later', async () => {
  using place = scratch();
  await using at = await scanningPlace(place, { roundPause: 100, pausesPerWork: 0 });
  await at.scanner.coverAll();
  at.write('bench-0', 'unseen');
  await wait(500);
  assert.deepEqual(at.found, []);
  at.scanner.roundSoon();
  await until('it is found', () => at.found.includes('differs bench-0 unseen'));
});

test('a round pauses in proportion to its work', async () => {
  using place = scratch();
  await using at = await scanningPlace(place, { round: 1, pausesPerWork: 20, filesEach: FILES });
  await at.scanner.coverAll();
  const began = performance.now();
  const before = at.counted();
  await until('there were three rounds', () => at.counted() >= before + 3);
  // Looking at 500 files takes some 10 ms.
  assert.ok(performance.now() - began > 2 * 20 * 2, 'they follow each other at once');
});

/** Directories without events, because their watches are elsewhere. */
async function scanningPlace(
  place: Scratch,
  {
    directories = 2,
    filesEach = 3,
    taking,
    ...options
  }: Pick<ScannerOptions, 'round' | 'roundPause' | 'pausesPerWork'> & {
    readonly directories?: number;
    readonly filesEach?: number;
    taking?(): Promise<void>;
  },
) {
  const { config } = place;
  await fill(config, await firstAccount(config), { directories, filesEach });
  const { reads, close } = await openReads(config.database);
  const jails = new JailQueries(reads, config.node);
  const log = createLog('silent');
  const ignore = (): void => undefined;
  const heard = { changed: ignore, missing: ignore, unclear: ignore, newFolder: ignore, overflowed: ignore };
  const watcher = new Watcher({ log, filesRoot: () => place.dir, limit: 10, ...heard });
  const found: string[] = [];
  let rounds = 0;
  const scanner = new Scanner({
    log,
    background: createBackground(log),
    jails: {
      byId: (id) => jails.byId(id),
      after: (id, limit) => jails.after(id, limit),
      count() {
        rounds += 1;
        return jails.count();
      },
    },
    watcher,
    database: { reads },
    jailDir: config.jailDir,
    async take(lot) {
      await taking?.();
      for (const { jail, path, isMissing } of lot) {
        found.push(`${isMissing ? 'missing' : 'differs'} ${jail.sftp_username} ${path}`);
      }
    },
    tooDeep: ignore,
    ...options,
  });
  const root = jailFiles(config.jailDir);
  return {
    scanner,
    watcher,
    found,
    root,
    counted: () => rounds,
    idOf: async (username: string): Promise<string> => (await jails.byUsername(username))?.id ?? '',
    write: (username: string, name: string): void => writeFileSync(join(root(username), name), 'data'),
    async [Symbol.asyncDispose]() {
      await scanner.close();
      await watcher.close();
      await close();
    },
  };
}
