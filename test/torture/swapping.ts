/**
 * Housekeeping as root against a user who swaps folders, files and, beyond what SFTP allows, links all the time.
 * Scans, retention and looks at the disk run for `seconds`; says what of the outside was touched or listed.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { DAY, systemClock } from '../../src/clock.ts';
import { type Database, openDatabase } from '../../src/db/open.ts';
import { fileStat } from '../../src/uploads/batch.ts';
import { startBerth, webhookOf } from '../support/berth.ts';
import { FXP, NO_ATTRIBUTES, rawSftp } from '../support/raw-sftp.ts';
import { scratch } from '../support/scratch.ts';

const BAIT = 20;

/**
 * Run as the user's UID in the machine's own tree: folders, links and files change places some thousand times a second.
 * (Without its pauses, chokidar's work on the events leaves the service's event loop no time at all.)
 */
const SWAPPER = `
  const fs = require('node:fs');
  const [files, outside] = process.argv.slice(1);
  process.chdir(files);
  const quietly = (step) => { try { step(); } catch {} };
  quietly(() => fs.symlinkSync(outside, 'link'));
  quietly(() => fs.symlinkSync(outside, 'd/link'));
  let swaps = 0;
  process.on('SIGTERM', () => { fs.writeSync(1, String(swaps)); process.exit(); });
  function turn() {
    for (const [a, b] of [['d', 'aside'], ['link', 'd'], ['d', 'link'], ['aside', 'd'], ['d/e', 'd/aside'], ['d/link', 'd/e'], ['d/e', 'd/link'], ['d/aside', 'd/e']]) {
      quietly(() => { fs.renameSync(a, b); swaps++; });
    }
    setTimeout(turn, 2);
  }
  turn();`;

export interface Swapped {
  readonly seconds: number;
  /** Renames by the process that swaps links in. */
  readonly swaps: number;
  /** Renames through SFTP. */
  readonly renames: number;
  readonly starts: number;
  readonly outside_missing: number;
  readonly outside_changed: number;
  /** Rows or webhooks that speak of a file outside. */
  readonly outside_told: number;
}

export async function swapFor(seconds: number): Promise<Swapped> {
  using place = scratch({ BERTH_LOG_LEVEL: 'silent' });
  await using berth = await startBerth(place);
  const directory = await berth.directory({ retention_days: 1 });
  const outside = join(place.dir, 'outside');
  mkdirSync(join(outside, 'e'), { recursive: true });
  const names = Array.from({ length: BAIT }, (_, index) => `${index}`);
  // The same names outside as inside: whoever follows a link finds what it looks for.
  for (const name of names.flatMap((plain) => [plain, `e/${plain}`])) writeFileSync(join(outside, name), 'out');
  for (const name of ['only-outside', 'e/only-outside']) writeFileSync(join(outside, name), 'out');
  const before = stateOf(outside);
  const { uid } = lstatSync(directory.files);
  for (const folder of ['d', 'd/e']) {
    mkdirSync(join(directory.files, folder));
    chownSync(join(directory.files, folder), uid, uid);
  }
  const swapper = spawn(process.execPath, ['-e', SWAPPER, directory.files, outside], {
    uid,
    gid: uid,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let swaps = '';
  swapper.stdout.on('data', (text: Buffer) => (swaps += text.toString()));

  const connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  const over = performance.now() + seconds * 1000;
  let renames = 0;
  const swapping = (async () => {
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
    }
  })();

  let starts = 0;
  const clock = systemClock();
  const database = await openDatabase(berth.config.databaseFile);
  while (performance.now() < over) {
    // Half the starts come two days later: everything has expired. Each one scans all and applies retention.
    await berth.stop();
    await expectOutside(database, directory.id, outside, names);
    await berth.start({ now: () => clock.now() + (starts % 2 ? 0 : 2 * DAY) });
    await berth.service().covered;
    starts += 1;
    await wait(100);
  }
  await swapping;
  await connection[Symbol.asyncDispose]();
  await end(swapper);
  await wait(3500); // what the settler still looks at
  const rows = await database.db.selectFrom('files').select('path').execute();
  await database.close();
  const after = stateOf(outside);
  const told = [
    ...berth.receiver.requests.map((request) => webhookOf(request).filename),
    ...rows.map(({ path }) => path.toString()),
  ];
  return {
    seconds,
    swaps: Number(swaps),
    renames,
    starts,
    outside_missing: [...before.keys()].filter((name) => !after.has(name)).length,
    outside_changed: [...after].filter(([name, state]) => before.get(name) !== state).length,
    outside_told: told.filter(
      (name) => name.includes('only-outside') || name.startsWith('link/') || name.includes('/link/'),
    ).length,
  };
}

/**
 * Rows that say the outside's files were uploaded through the folders: what a scan or retention would act on, were it
 * ever to find them there.
 */
async function expectOutside({ db }: Database, id: string, outside: string, names: readonly string[]): Promise<void> {
  for (const name of names.flatMap((plain) => [plain, `e/${plain}`])) {
    const path = Buffer.from(`d/${name}`);
    const stat = fileStat(lstatSync(join(outside, name)));
    await db.deleteFrom('files').where('directory_id', '=', id).where('path', '=', path).execute();
    await db
      .insertInto('files')
      .values({
        id: randomUUID(),
        directory_id: id,
        path,
        ...stat,
        state: 'uploaded',
        uploaded_at: 1,
        source: 'log',
        session_pid: null,
      })
      .execute();
  }
}

/** What and when: a file that was opened for writing, removed or replaced shows. */
function stateOf(folder: string): Map<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return new Map(
    names.map((name) => {
      const stats = lstatSync(join(folder, name));
      const content = stats.isFile() ? readFileSync(join(folder, name), 'utf8') : '';
      return [name, `${stats.ino} ${stats.ctimeMs} ${content}`];
    }),
  );
}

async function end(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}
