/** A file's identity and state as rows keep them, and how two of these are compared. */
import type { Stats } from 'node:fs';
import { type Micros, SECOND } from '../../../foundation/base/clock.ts';
import type { FilesTable } from '../../../foundation/db/schema.ts';

/** Recognizes a file, whatever was done to its content. */
export type FileIdentity = Pick<FilesTable, 'inode' | 'mtime' | 'size_bytes'>;

/** A file as it is. */
export type FileStat = FileIdentity & { readonly ctime: Micros };

/** A file as its row has it. */
export type RecordedStat = FileIdentity & Pick<FilesTable, 'ctime' | 'uploaded_at'>;

/** The grain of file times, which come from the kernel's timer. It ticks at least this often. */
export const TIMER_GRAIN: Micros = 10_000;

/** How long after an event its log line may be read. */
export const LOG_LAG: Micros = 200_000;

/** How late the log may be read on an overloaded machine. */
export const BUSY_LAG: Micros = 2_000_000;

/** How late it may be read after a restart of berth or a pause of the machine. */
export const RESTART_LAG: Micros = 60 * SECOND;

/** The mtime of a row that must not match any file: the file has not been seen, or has been overwritten since. */
export const STALE_MTIME: Micros = -1;

/** The inode of a row whose file was never seen: it was written from the log alone. */
export const UNKNOWN_INODE = -(2 ** 52);

/**
 * The largest size that counts for a file: 16 TiB, the largest file of ext4. A sparse file may claim to be larger than
 * any disk. With this limit, sums stay exact and SQLite's integers do not overflow.
 */
const LARGEST = 2 ** 44;

export function fileStat(stats: Pick<Stats, 'ino' | 'mtimeMs' | 'ctimeMs' | 'size'>): FileStat {
  return {
    inode: stats.ino,
    mtime: Math.floor(stats.mtimeMs * 1000),
    ctime: Math.floor(stats.ctimeMs * 1000),
    size_bytes: Math.min(stats.size, LARGEST),
  };
}

/**
 * The inode of a row from a restored backup, whose file may be a copy. It is negative, so no file has it, and it
 * depends on the mtime, so that the index on inodes finds the row.
 */
export function unknownInode(mtime: Micros): number {
  return -1 - Math.max(mtime, 0);
}

/**
 * Whether the file is the one that the row was written for, as far as inode, size and mtime tell: a client can write
 * other bytes and set the mtime. For a restored row, size and mtime have to agree.
 */
export function isSame(row: FileIdentity, stat: FileIdentity): boolean {
  return row.inode >= 0 ? row.inode === stat.inode && looksAlike(row, stat, 0) : isCopy(row, stat);
}

/**
 * Whether nobody has touched the file since its row was written. The ctime proves it. A row without one is from an older
 * version, and was written right after the upload.
 */
export function isUnchanged(row: RecordedStat, stat: FileStat): boolean {
  if (row.inode < 0 || !isSame(row, stat)) return false;
  return row.ctime === null ? stat.ctime <= row.uploaded_at + SECOND : row.ctime === stat.ctime;
}

/**
 * Like `isUnchanged`, as far as that can be known of a restored row: its file may be a copy, whose ctime says nothing. What has
 * changed since its row was written may be a new upload that is still to be recorded.
 */
export function isAsRecorded(row: RecordedStat, stat: FileStat): boolean {
  return row.inode >= 0 ? isUnchanged(row, stat) : isSame(row, stat);
}

/** Whether both are of the same file, and nothing has changed in between. */
export function isUntouched(before: FileStat, stat: FileStat): boolean {
  return isSame(before, stat) && before.ctime === stat.ctime;
}

/** Whether the file is the row's, changed or not. A changed copy cannot be recognized. */
export function isFileOf(row: FileIdentity, stat: FileIdentity): boolean {
  return row.inode >= 0 ? row.inode === stat.inode : isCopy(row, stat);
}

/**
 * Whether the file has the row's size and mtime, which `cp -a` and `rsync -a` preserve. Some tools preserve whole
 * seconds only.
 */
export function isCopy(row: FileIdentity, stat: FileIdentity): boolean {
  return looksAlike(row, stat, 0) || looksAlike(row, stat, SECOND);
}

function looksAlike(row: FileIdentity, stat: FileIdentity, grain: Micros): boolean {
  if (row.size_bytes !== stat.size_bytes || row.mtime === STALE_MTIME) return false;
  return row.mtime === stat.mtime || (grain > 0 && row.mtime > 0 && row.mtime - (row.mtime % grain) === stat.mtime);
}
