/** Looks at what a decision needs: the disk, the rows, and what the ledger knows of the path. */
import type { Stats } from 'node:fs';
import { lstatBeneath } from '../../beneath.ts';
import type { Micros } from '../../clock.ts';
import { bytesOf, type FilePath, type FilesRoot, type IsTemporary } from '../file-path.ts';
import type { Look } from './decision.ts';
import type { Close } from './evidence.ts';
import type { FileRow, Files } from './files.ts';
import { type FileStat, fileStat, isFileOf, isSame } from './file-stat.ts';
import type { Repeating } from './history.ts';
import type { Entry } from './namespace.ts';
import type { Unmatched } from './unmatched.ts';

/** How long a file has to stay as it is, in ms. */
export const REST = 2000;

/** How long a file has to be missing before its row goes, in ms: a move is two events. */
export const GONE_REST = 3000;

/** Looks after which what the log announced has happened, or never will. */
const FRESH_LOOKS = 5;

export interface LookOptions extends Repeating {
  /** Whose directories these are. */
  readonly node: string;
  readonly filesRoot: FilesRoot;
  readonly isTemporary: IsTemporary;
  /** The processes that serve the directory's live sessions. */
  livePids(directoryId: string): readonly number[];
  readonly unmatched: Unmatched;
  /** False while the disk of the jails is not mounted: then no file counts as removed. */
  readonly isJailDiskThere?: (() => boolean) | undefined;
}

/** A look, and what its decision is applied to. */
export interface Sight extends Look {
  readonly entry: Entry;
  readonly row: FileRow | undefined;
  readonly twin: FileRow | undefined;
  readonly isFolder: boolean;
  /** The close that the look is about when it was found among the unmatched ones, not in the entry. */
  readonly matched: Close | undefined;
  /** Renames that are acted upon. */
  readonly renames: number;
}

export async function lookAt(entry: Entry, files: Files, now: Micros, options: LookOptions): Promise<Sight> {
  const { id, sftp_username } = entry.directory.jail;
  const { unmatched, isTemporary } = options;
  const root = options.filesRoot(sftp_username);
  entry.hasNews = false;
  const { path, stats } = find(entry, root);
  const stat = stats?.isFile() ? fileStat(stats) : undefined;
  const row = path === undefined ? undefined : await files.at(path);
  const isAsRecorded = row !== undefined && stat !== undefined && isSame(row, stat);
  const { progress } = entry;
  progress.wasSet ||= entry.setUntil > performance.now();
  const isUnexplained = progress.isUnexplained ?? false;
  const cutClose =
    stats && stat && path !== undefined && isUnexplained
      ? unmatched.cutCloseOf(id, path, stat, stats.ctimeMs * 1000)
      : undefined;
  const isUntold = stat !== undefined && !isAsRecorded && entry.closes.length === 0;
  // What was closed may be of its size, and its times be set after that.
  const isSetOnly = progress.wasSet && entry.closes.length === 0;
  const matched = isUntold ? (unmatched.closeOf(id, stat) ?? cutClose) : undefined;
  const stillFor = timeSince(entry, stat);
  return {
    entry,
    path: path ?? '',
    now,
    stat,
    row,
    isFolder: stats?.isDirectory() ?? false,
    twin: stat && !isAsRecorded ? await twinOf(root, files, stat, row) : undefined,
    removedRow: stat && unmatched.rowOf(id, stat),
    isPlaced: stat !== undefined && !isAsRecorded && isOf(await files.placementOf(stat), stat, isSetOnly),
    matched,
    closes: matched ? [matched] : [...entry.closes],
    renames: entry.renames.length,
    rename: entry.renames.at(-1),
    removal: entry.removal,
    sessionEnd: entry.sessionEnd,
    isFresh: entry.looks < FRESH_LOOKS,
    isReopened: [...entry.writers].some(({ isDoubtful }) => !isDoubtful),
    wasSet: progress.wasSet,
    // Of what has no name the log says nothing more.
    seen: path === undefined ? null : progress.seen,
    synced: progress.synced,
    isRested: stillFor >= REST || (stats !== undefined && isOld(stats, now)),
    isGone: stat === undefined && stillFor >= GONE_REST - 100 && (options.isJailDiskThere?.() ?? true),
    isUnexplained,
    isTemporary,
    livePids: options.livePids(id),
  };
}

/** What has no name any more, as far as the log tells, may be where it was closed all the same: a rename was refused. */
function find(entry: Entry, root: string): { path?: FilePath; stats?: Stats | undefined } {
  if (entry.isAttached) {
    const { path } = entry;
    return { path, stats: lstatBeneath(root, bytesOf(path)) };
  }
  const { path, inode, bytes } = entry.closes.at(-1) ?? {};
  const stats = path === undefined || inode === undefined ? undefined : lstatBeneath(root, bytesOf(path));
  // Whose inode was seen may have been another file's, which was renamed onto it.
  const isIt = stats?.ino === inode && (bytes === undefined || bytes === stats?.size);
  return path !== undefined && isIt ? { path, stats } : {};
}

/** Whether the file is still the one that the API has put there; clients may have set its times. */
function isOf(placement: FileStat | undefined, stat: FileStat, isSetOnly: boolean): boolean {
  if (!placement) return false;
  return isSame(placement, stat) || (isSetOnly && placement.size_bytes === stat.size_bytes);
}

/** How long looks have seen the same, in ms. */
function timeSince(entry: Entry, stat: FileStat | undefined): number {
  const before = entry.still?.stat;
  const isStill = entry.still && (before && stat ? isSame(before, stat) : before === stat);
  if (!entry.still || !isStill) entry.still = { stat, since: performance.now() };
  return performance.now() - entry.still.since;
}

/** ctime is the kernel's: clients cannot set it. Under a clock that jumped, two looks have to agree instead. */
function isOld(stats: Stats, now: Micros): boolean {
  const age = now / 1000 - stats.ctimeMs;
  return age >= REST && age < 1e12;
}

/** The row of that file under a name that the file no longer has. */
async function twinOf(root: string, files: Files, stat: FileStat, own?: FileRow): Promise<FileRow | undefined> {
  for (const row of await files.ofInode(stat)) {
    // The file may have been renamed since this look saw it: the row at its path is no twin of itself.
    if (row.id !== own?.id && isFileOf(row, stat) && lstatBeneath(root, row.path)?.ino !== stat.inode) return row;
  }
  return undefined;
}
