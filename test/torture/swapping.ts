/**
 * Housekeeping as root against a user who swaps folders, files and, beyond what SFTP allows, links all the time. Scans and
 * retention run alone for half of `seconds`, then beside a service that starts again and again; reports which files outside
 * were touched or listed.
 *
 * chokidar works with paths: if a link replaces a folder, it lists the folder outside. That has no effect, since berth
 * checks each path that a change names, so it is counted separately.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, lstatSync, lutimesSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { DAY, systemClock } from '../../src/foundation/base/clock.ts';
import { type Database, openDatabase } from '../../src/foundation/db/open.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { scanDirectory } from '../../src/arrivals/uploads/disk/scan.ts';
import { jailFiles } from '../../src/arrivals/uploads/file-path.ts';
import { filesAfter } from '../../src/arrivals/uploads/record/files.ts';
import { type FileStat, fileStat } from '../../src/arrivals/uploads/record/file-stat.ts';
import { applyRetention } from '../../src/arrivals/uploads/retention.ts';
import { startBerth, type TestBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { FXP, NO_ATTRIBUTES, rawSftp } from '../support/raw-sftp.ts';
import { scratch } from '../support/scratch.ts';

const BAIT = 20;

/**
 * Run as the user's UID in the machine's own tree: folders, links and files change places some thousand times a second.
 * In perl, which that UID may always run; Node may be below /root. It pauses after any step, so also while a link is in a folder's
 * place. (Without pauses, chokidar's work on the events leaves the service's event loop no time at all.) Ends with its parent.
 */
const SWAPPER = `
  use strict;
  my ($files, $outside, $rest) = @ARGV;
  chdir $files or die "$files: $!";
  symlink $outside, 'link';
  symlink $outside, 'd/link';
  my @steps = (['d', 'aside'], ['link', 'd'], ['d', 'link'], ['aside', 'd'],
    ['d/e', 'd/aside'], ['d/link', 'd/e'], ['d/e', 'd/link'], ['d/aside', 'd/e']);
  my ($parent, $swaps, $reported) = (getppid, 0, 0);
  while (getppid == $parent) {
    for my $step (@steps) {
      $swaps++ if rename $step->[0], $step->[1];
      select undef, undef, undef, $rest if rand() < 0.2;
    }
    next if $swaps < $reported + 100;
    syswrite STDOUT, "$swaps\\n";
    $reported = $swaps;
  }`;

/** Seconds. */
const REST = 0.002;

export interface Swapped {
  readonly seconds: number;
  /** Renames by the process that swaps links in. */
  readonly swaps: number;
  /** Renames through SFTP. */
  readonly renames: number;
  /** Starts of the service; each scans everything and applies retention. */
  readonly starts: number;
  /** Further scans, each with retention after it. */
  readonly scans: number;
  readonly outside_missing: number;
  readonly outside_changed: number;
  /** Folders outside that were read by a scan or retention. */
  readonly outside_listed: number;
  /** The same while chokidar was there, too. */
  readonly outside_listed_with_watcher: number;
  /** Rows, webhooks and what a scan looked at that speak of a file outside. */
  readonly outside_reported: number;
}

export async function swapFor(seconds: number): Promise<Swapped> {
  using place = scratch({ BERTH_LOG_LEVEL: 'silent' });
  await using berth = await startBerth(place);
  const directory = await berth.directory({ retention_days: 1 });
  const outside = join(place.dir, 'outside');
  mkdirSync(join(outside, 'e'), { recursive: true });
  // The same names outside as inside: code that follows a link finds what it looks for.
  const bait = new Map<string, FileStat>();
  for (const name of Array.from({ length: BAIT }, (_, index) => [`${index}`, `e/${index}`]).flat()) {
    writeFileSync(join(outside, name), 'out');
    bait.set(name, fileStat(lstatSync(join(outside, name))));
  }
  for (const name of ['only-outside', 'e/only-outside']) writeFileSync(join(outside, name), 'out');
  const folders = [outside, join(outside, 'e')];
  // Reading a folder that seems to have been read long ago sets that time (mount(8), relatime).
  const markUnread = (): void => folders.forEach((folder) => lutimesSync(folder, 0, lstatSync(folder).mtime));
  const isRead = (folder: string): boolean => lstatSync(folder).atimeMs !== 0;
  markUnread();
  const before = stateOf(outside);
  assert.ok(folders.every(isRead), 'this file system does not tell when a folder was read');
  const { uid } = lstatSync(directory.files);
  for (const folder of ['d', 'd/e']) {
    mkdirSync(join(directory.files, folder));
    chownSync(join(directory.files, folder), uid, uid);
  }
  await using database = await opened(berth);
  await using swapper = await startSwapper(uid, directory.files, outside);

  const reported: string[] = [];
  const scanUntil = (over: number): Promise<number> =>
    scanAllTheTime(over, berth, database, directory, (path) => void reported.push(path));
  await berth.stop();
  await expectOutside(database, directory.id, bait);
  markUnread();
  let scans = await scanUntil(performance.now() + seconds * 500);
  const listed = folders.filter(isRead);
  markUnread();

  await berth.start();
  const over = performance.now() + seconds * 500;
  const serving = async (): Promise<number> => {
    let starts = 0;
    for (const clock = systemClock(); performance.now() < over; starts++) {
      // Half the starts come two days later: everything has expired. Each one scans all and applies retention.
      await berth.stop();
      await expectOutside(database, directory.id, bait);
      await berth.start({ now: () => clock.now() + (starts % 2 ? 0 : 2 * DAY) });
      await berth.service().covered;
      await wait(100);
    }
    return starts;
  };
  const [renames, starts, more] = await Promise.all([renameUntil(over, berth, directory), serving(), scanUntil(over)]);
  scans += more;
  const swaps = await swapper.end();
  await wait(3500); // what the settler still looks at
  const listedWithWatcher = folders.filter(isRead);
  const rows = await database.db.selectFrom('files').select('path').execute();
  const after = stateOf(outside);
  reported.push(
    ...berth.receiver.requests.map((request) => webhookOf(request).filename),
    ...rows.map(({ path }) => path.toString()),
  );
  return {
    seconds,
    swaps,
    renames,
    starts,
    scans,
    outside_missing: [...before.keys()].filter((name) => !after.has(name)).length,
    outside_changed: [...after].filter(([name, state]) => before.get(name) !== state).length,
    outside_listed: listed.length,
    outside_listed_with_watcher: listedWithWatcher.length,
    outside_reported: reported.filter((name) => name.includes('only-outside')).length,
  };
}

/** @throws an AssertionError when anything outside was touched, reported, or listed by housekeeping. */
export function expectUntouched(result: Swapped): void {
  const { outside_missing, outside_changed, outside_listed, outside_reported } = result;
  assert.deepEqual(
    { outside_missing, outside_changed, outside_listed, outside_reported },
    { outside_missing: 0, outside_changed: 0, outside_listed: 0, outside_reported: 0 },
  );
}

/** Scans and applies retention all the time, to the rows that there are. Returns how often. */
async function scanAllTheTime(
  over: number,
  { config }: TestBerth,
  database: Database,
  directory: TestDirectory,
  look: (path: string) => void,
): Promise<number> {
  const { reads } = database;
  const clock = systemClock();
  const filesRoot = jailFiles(config.jailDir);
  const { signal } = new AbortController();
  const ignore = (): void => undefined;
  const scan = {
    root: filesRoot(directory.username),
    filesAfter: (after: Buffer, limit: number) => filesAfter.all(reads, { directory: directory.id, after, limit }),
    differs: async (path: string): Promise<void> => look(path),
    missing: async (): Promise<void> => undefined,
    tooDeep: ignore,
    signal,
  };
  const retention = {
    database,
    clock,
    clockLead: async () => ({ now: clock.now(), lead: 0 }),
    log: createLog('silent'),
    node: '',
    filesRoot,
    recorder: { removed: ignore, look: ignore },
    mustStay: async () => () => false,
    drained: async () => undefined,
  };
  let scans = 0;
  for (; performance.now() < over; scans++) {
    await scanDirectory(scan);
    await applyRetention(retention, signal);
    await wait(1);
  }
  return scans;
}

/** The same through SFTP, where there are no links. Returns how many renames were asked for. */
async function renameUntil(over: number, berth: TestBerth, directory: TestDirectory): Promise<number> {
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  let renames = 0;
  for (let round = 0; performance.now() < over; round++) {
    const answers = [];
    for (let i = 0; i < 20; i++) {
      answers.push(session.rename('d', 'moved'), session.request(FXP.MKDIR, 'd', NO_ATTRIBUTES));
      answers.push(session.request(FXP.RMDIR, 'd'), session.rename('moved', 'd'), session.rename('d/e', 'd/0'));
      answers.push(session.rename('d/0', 'd/e'));
      renames += 4;
    }
    await Promise.all(answers);
    await session.put(`d/${round % BAIT}`, `in ${round}`);
    await session.put(`d/e/${round % BAIT}`, `in ${round}`);
    await wait(20);
  }
  return renames;
}

interface Swapper extends AsyncDisposable {
  /** Ends it. Returns how many renames it made. */
  end(): Promise<number>;
}

/** Returns once it swaps; rejects when it cannot. */
async function startSwapper(uid: number, files: string, outside: string): Promise<Swapper> {
  const child = spawn('perl', ['-e', SWAPPER, files, outside, String(REST)], {
    uid,
    gid: uid,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout.on('data', (text: Buffer) => (said = text.toString()));
  // Rejects when it cannot be started; then there will be no end to wait for.
  const ended = once(child, 'close');
  const end = async (): Promise<number> => {
    child.kill('SIGKILL');
    await ended;
    return Number(said.trim().split('\n').at(-1));
  };
  await Promise.race([
    until('it swaps', () => said !== ''),
    ended.then(() => Promise.reject(new Error('the swapper ended'))),
  ]);
  return { end, [Symbol.asyncDispose]: async () => void (await end()) };
}

async function opened(berth: TestBerth): Promise<Database & AsyncDisposable> {
  const database = await openDatabase(berth.config.database);
  return Object.assign(database, { [Symbol.asyncDispose]: () => database.close() });
}

/**
 * Rows that say the outside's files were uploaded through the folders: what a scan or retention would act on, were it
 * ever to find them there.
 */
async function expectOutside({ db }: Database, id: string, bait: ReadonlyMap<string, FileStat>): Promise<void> {
  for (const [name, stat] of bait) {
    const path = Buffer.from(`d/${name}`);
    await db.deleteFrom('files').where('directory_id', '=', id).where('path', '=', path).execute();
    const row = { id: randomUUID(), directory_id: id, path, ...stat };
    await db
      .insertInto('files')
      .values({ ...row, state: 'uploaded', uploaded_at: 1, source: 'log', session_pid: null })
      .execute();
  }
}

/** What and when: a file that was opened for writing, removed or replaced shows. A folder's ctime is what we set. */
function stateOf(folder: string): Map<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return new Map(
    names.map((name) => {
      const path = join(folder, name);
      const stats = lstatSync(path);
      const content = stats.isFile() ? [stats.ctimeMs, readFileSync(path, 'utf8')] : [stats.mtimeMs];
      return [name, [stats.ino, stats.mode, stats.uid, ...content].join(' ')];
    }),
  );
}
