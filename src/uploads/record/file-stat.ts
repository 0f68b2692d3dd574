/** What a file is, as far as rows keep it, and whether two such are the same file. */
import type { Stats } from 'node:fs';
import { type Micros, SECOND } from '../../clock.ts';
import type { FilesTable } from '../../db/schema.ts';

export type FileStat = Pick<FilesTable, 'inode' | 'mtime' | 'size_bytes'>;

/** File times are taken from the kernel's timer, which ticks this often at least. */
export const TIMER_GRAIN: Micros = 10_000;

/** How much later than it happened the log may be heard. */
export const LOG_LAG: Micros = 200_000;

/** The mtime of a row whose file has been overwritten since: no file on the disk is the same as this. */
export const UNSEEN: Micros = -1;

/** The inode of a row whose file nobody has seen: it was announced by the log's word. */
export const UNSEEN_INODE = -(2 ** 52);

/**
 * A sparse file may claim to be larger than any disk; sums stay exact, and SQLite's integers do not overflow, as long as
 * each counts for at most this much: 16 TiB, the largest file of ext4.
 */
const LARGEST = 2 ** 44;

export function fileStat(stats: Pick<Stats, 'ino' | 'mtimeMs' | 'size'>): FileStat {
  return { inode: stats.ino, mtime: Math.floor(stats.mtimeMs * 1000), size_bytes: Math.min(stats.size, LARGEST) };
}

/**
 * The inode of a row that came with a restored backup, and whose file may have been copied: none that a file has, and
 * different for rows that differ in mtime, so that the index finds them by it.
 */
export function unknownInode(mtime: Micros): number {
  return -1 - Math.max(mtime, 0);
}

/** Whether the file is the one the row was written for, unchanged. A restored row's file has that size and mtime. */
export function isSame(row: FileStat, stat: FileStat): boolean {
  return row.inode >= 0 ? row.inode === stat.inode && hasSameContent(row, stat, 0) : isCopy(row, stat);
}

/** Whether it is the row's file, changed or not; a copied one cannot be told when it has changed. */
export function isFileOf(row: FileStat, stat: FileStat): boolean {
  return row.inode >= 0 ? row.inode === stat.inode : isCopy(row, stat);
}

/** Whether the file has the row's size and time, as `cp -a` and `rsync -a` leave them. Some copy whole seconds only. */
export function isCopy(row: FileStat, stat: FileStat): boolean {
  return hasSameContent(row, stat, 0) || hasSameContent(row, stat, SECOND);
}

function hasSameContent(row: FileStat, stat: FileStat, grain: Micros): boolean {
  if (row.size_bytes !== stat.size_bytes || row.mtime === UNSEEN) return false;
  return row.mtime === stat.mtime || (grain > 0 && row.mtime > 0 && row.mtime - (row.mtime % grain) === stat.mtime);
}
