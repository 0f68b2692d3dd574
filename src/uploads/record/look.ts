/** Looks at what a decision needs: the disk, the rows, and what the ledger knows of the path. */
import type { Stats } from 'node:fs';
import { lstatBeneath } from '../../beneath.ts';
import type { Micros } from '../../clock.ts';
import { bytesOf, type FilePath, type FilesRoot, pathOf } from '../file-path.ts';
import type { IsTemporary } from '../temp-names.ts';
import type { Look } from './decision.ts';
import type { Close } from './evidence.ts';
import { type FileRow, type Files } from './files.ts';
import { type FileStat, fileStat, isFileOf, isSame } from './file-stat.ts';
import { GONE_REST } from './ledger.ts';
import type { Entry } from './namespace.ts';
import type { Strays } from './strays.ts';

/** How long a file has to stay as it is, in ms. */
export const REST = 2000;

/** Looks after which what the log announced has happened, or never will. */
const FRESH_LOOKS = 5;

export interface LookOptions {
  readonly filesRoot: FilesRoot;
  readonly isTemporary: IsTemporary;
  isLive(directoryId: string, pid: number): boolean;
  /** A live session of the directory. */
  livePid(directoryId: string): number | undefined;
  readonly strays: Strays;
}

export interface Sight extends Look {
  readonly entry: Entry;
  readonly row: FileRow | undefined;
  readonly twin: FileRow | undefined;
  readonly isFolder: boolean;
  /** Of its closes, one that was not told of this path. */
  readonly met: Close | undefined;
  /** Renames that are acted upon. */
  readonly renames: number;
}

export async function lookAt(entry: Entry, files: Files, now: Micros, options: LookOptions): Promise<Sight> {
  const { id, username } = entry.directory;
  const root = options.filesRoot(username);
  const { path, stats } = find(entry, root);
  const stat = stats?.isFile() ? fileStat(stats) : undefined;
  const row = path === undefined ? undefined : await files.at(path);
  const isAsRecorded = row !== undefined && stat !== undefined && isSame(row, stat);
  const isUntold = stat !== undefined && !isAsRecorded && entry.closes.length === 0;
  const met = isUntold ? options.strays.closeOf(id, stat) : undefined;
  const { rest } = entry;
  const isStill = rest !== undefined && isSameSight(rest.stat, stat);
  const stillFor = isStill ? performance.now() - rest.since : 0;
  if (!isStill) entry.rest = { stat, since: performance.now() };
  return {
    entry,
    path: path ?? '',
    now,
    stat,
    row,
    isFolder: stats?.isDirectory() ?? false,
    twin: stat && !isAsRecorded ? await twinOf(root, files, stat) : undefined,
    removedRow: stat && options.strays.rowOf(id, stat),
    met,
    closes: met ? [met] : [...entry.closes],
    renames: entry.renames.length,
    rename: entry.renames.at(-1),
    removal: entry.removal,
    over: entry.over,
    isFresh: entry.looks < FRESH_LOOKS,
    isReopened: [...entry.writers].some(({ isDoubtful }) => !isDoubtful),
    wasSet: entry.setUntil > performance.now(),
    // Of what has no name the log says nothing more.
    seen: path === undefined ? null : entry.seen,
    synced: entry.synced,
    isRested: stillFor >= REST || (stats !== undefined && isOld(stats, now)),
    isGone: stat === undefined && stillFor >= GONE_REST - 100,
    isUnexplained: entry.isUnexplained,
    isTemporary: options.isTemporary,
    isLive: (pid) => options.isLive(id, pid),
    livePid: options.livePid(id),
  };
}

/** What has no name any more, as far as the log tells, may be where it was closed all the same: a rename was refused. */
function find(entry: Entry, root: string): { path?: FilePath; stats?: Stats | undefined } {
  if (entry.isAttached) {
    const { path } = entry;
    return { path, stats: lstatBeneath(root, bytesOf(path)) };
  }
  const { path, inode } = entry.closes.at(-1) ?? {};
  const stats = path === undefined || inode === undefined ? undefined : lstatBeneath(root, bytesOf(path));
  return path !== undefined && stats?.ino === inode ? { path, stats } : {};
}

/** ctime is the kernel's: clients cannot set it. Under a clock that jumped, two looks have to agree instead. */
function isOld(stats: Stats, now: Micros): boolean {
  const age = now / 1000 - stats.ctimeMs;
  return age >= REST && age < 1e12;
}

function isSameSight(a: FileStat | undefined, b: FileStat | undefined): boolean {
  return a === undefined || b === undefined ? a === b : isSame(a, b);
}

/** The row of that file under a name that the file no longer has. */
async function twinOf(root: string, files: Files, stat: FileStat): Promise<FileRow | undefined> {
  for (const row of await files.ofInode(stat)) {
    const stats = lstatBeneath(root, bytesOf(pathOf(row.path)));
    if (isFileOf(row, stat) && stats?.ino !== stat.inode) return row;
  }
  return undefined;
}
