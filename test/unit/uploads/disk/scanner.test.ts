/** Scans of every directory, and who waits for them. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { createBackground } from '../../../../src/base/background.ts';
import { openReads } from '../../../../src/db/open.ts';
import { createLog } from '../../../../src/base/log.ts';
import { Scanner, type ScannerOptions } from '../../../../src/uploads/disk/scanner.ts';
import { Watcher } from '../../../../src/uploads/disk/watcher.ts';
import { jailFiles } from '../../../../src/uploads/file-path.ts';
import { JailQueries } from '../../../../src/uploads/jails.ts';
import { fill } from '../../../bench/filled.ts';
import { firstAccount } from '../../../bench/served.ts';
import { until } from '../../../support/poll.ts';
import { type Scratch, scratch } from '../../../support/scratch.ts';

test('a second request for the first scan of everything waits for that scan, also when it is over', async () => {
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
    databasePlace: '',
    jailDir: '',
    take: async () => undefined,
    tooDeep: ignore,
  });
  await Promise.all([scanner.coverAll(), scanner.coverAll()]);
  await scanner.coverAll();
  assert.equal(rounds, 1);
  await scanner.close();
  await watcher.close();
});

test('a file of which no event came is found by the next round, although everything is watched', async () => {
  using place = scratch();
  await using at = await scanningPlace(place, { round: 100, pausesPerWork: 0 });
  await at.scanner.coverAll();
  assert.equal(at.watcher.isComplete(), true);
  at.write('bench-1', 'unseen');
  await until('it is found', () => at.found.includes('bench-1 unseen'));
});

test('when events were lost, a round begins that would have come an hour later', async () => {
  using place = scratch();
  await using at = await scanningPlace(place, { roundPause: 100, pausesPerWork: 0 });
  await at.scanner.coverAll();
  at.write('bench-0', 'unseen');
  await wait(500);
  assert.deepEqual(at.found, []);
  at.scanner.roundSoon();
  await until('it is found', () => at.found.includes('bench-0 unseen'));
});

test('a round pauses in proportion to its work', async () => {
  using place = scratch();
  await using at = await scanningPlace(place, { round: 1, pausesPerWork: 10 });
  await at.scanner.coverAll();
  const began = performance.now();
  const before = at.counted();
  await until('there were three rounds', () => at.counted() >= before + 3);
  // Each counts as 200 ms of work at least, since the thread may have to start.
  assert.ok(performance.now() - began > 2 * 10 * 200, 'they follow each other at once');
});

/** Directories that no event comes from: what is watched is elsewhere. */
async function scanningPlace(place: Scratch, options: Pick<ScannerOptions, 'round' | 'roundPause' | 'pausesPerWork'>) {
  const { config } = place;
  await fill(config, await firstAccount(config), { directories: 2, filesEach: 3 });
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
    databasePlace: config.database,
    jailDir: config.jailDir,
    async take(lot) {
      for (const { jail, path } of lot) found.push(`${jail.sftp_username} ${path}`);
    },
    tooDeep: ignore,
    ...options,
  });
  const root = jailFiles(config.jailDir);
  return {
    scanner,
    watcher,
    found,
    counted: () => rounds,
    write: (username: string, name: string): void => writeFileSync(join(root(username), name), 'data'),
    async [Symbol.asyncDispose]() {
      await scanner.close();
      await watcher.close();
      await close();
    },
  };
}
