/**
 * Remembers uploads and rows whose file has not been found: uploads whose file had no name when they ended, closes
 * whose name the log cut off, and rows that were removed because their file was missing. A look matches an unexplained
 * file against them.
 */
import { LRUCache } from 'lru-cache';
import type { Micros } from '../../../foundation/base/clock.ts';
import { baseName, beginsLike, type FilePath, parentOf, withoutSuffix } from '../file-path.ts';
import type { FileRow } from '../record/files.ts';
import {
  BUSY_LAG,
  type FileIdentity,
  type FileStat,
  isSame,
  LOG_LAG,
  RESTART_LAG,
  TIMER_GRAIN,
  STALE_MTIME,
  UNKNOWN_INODE,
} from '../record/file-stat.ts';
import { type CutOff, type LostEnding, LostEndings } from './lost-endings.ts';
import type { Ending } from './operations.ts';

/** How many entries are remembered, and for how long, in ms. A comparison with the disk comes sooner than that. */
const REMEMBERED = { max: 10_000, ttl: 60_000 };

export class Lost {
  readonly #endings = new LRUCache<string, LostEndings>(REMEMBERED);
  readonly #rows = new LRUCache<string, FileRow>(REMEMBERED);

  addEnding(directoryId: string, end: Ending, cutOff?: CutOff): void {
    this.#add(directoryId, { end, cutOff });
  }

  /** Adds an upload whose file is not at its path. */
  addMissing(directoryId: string, end: Ending, missingAt: FilePath, folderBornAt: Micros): void {
    this.#add(directoryId, { end, missingAt, folderBornAt });
  }

  /** Adds an upload whose row waits for its file. */
  addAwaited(directoryId: string, end: Ending, missingAt: FilePath | undefined): void {
    this.#add(directoryId, { end, isAwaited: true, missingAt });
  }

  #add(directoryId: string, ending: LostEnding): void {
    const endings = this.#endings.get(directoryId) ?? new LostEndings();
    endings.add(ending);
    this.#endings.set(directoryId, endings);
  }

  /** A folder was renamed, and with it files whose names the log has cut off. */
  moved(directoryId: string, from: FilePath, to: FilePath): void {
    this.#endings.get(directoryId)?.moved(from, to);
  }

  /**
   * The upload that may have left this file, provided that the file has not changed since. Skips uploads in `matched`,
   * except dropped ones with a cut-off name: the log cannot say which of several files they left.
   * @param row the file's row.
   */
  endingOf(
    directoryId: string,
    path: FilePath,
    stat: FileStat & { readonly changedAt: Micros; readonly bornAt: Micros; readonly wasSet?: boolean },
    row: FileRow | undefined,
    matched: readonly Ending[],
  ): Ending | undefined {
    const isDatedAsBefore = row !== undefined && isSame(row, stat);
    const isSizedAsBefore = stat.wasSet === true && row?.inode === stat.inode && row.size_bytes === stat.size_bytes;
    const isStillPartial = row?.state === 'partial' && (isDatedAsBefore || isSizedAsBefore);
    // The log has brought a later upload to the path, whose file was not seen.
    const isTaken = ({ at }: Ending): boolean =>
      row?.mtime === STALE_MTIME && row.source === 'log' && row.state !== 'partial' && at <= row.uploaded_at;
    const isOfRow = ({ end, isAwaited }: LostEnding): boolean =>
      isAwaited === true && row?.mtime === STALE_MTIME && end.at === row.uploaded_at;
    const endings = (this.#endings.get(directoryId)?.of(path, stat, row?.uploaded_at) ?? [])
      .filter(({ end, cutOff }) => !matched.includes(end) || (!end.isComplete && cutOff !== undefined))
      // A file that was cut off, and that nobody has written since, is not that of another upload.
      .filter(({ end }) => !(isStillPartial && end.isComplete))
      // What a handle has written has a new mtime. Of a cut upload a client may have set it.
      .filter(({ end, cutOff }) => !isDatedAsBefore || (cutOff?.session.hasSetCutOff ?? !end.isComplete))
      .filter((each) => !isTaken(each.end) || each.cutOff !== undefined || isOfRow(each))
      .filter(({ end }) => !isOther(end, stat));
    const cut = cutOffAt(endings, path, stat);
    // The size is not that of the complete upload, so a later one may have overwritten it and been cut off.
    const mayBeOverwritten = ({ isComplete, bytes = stat.size_bytes }: Ending): boolean =>
      isComplete && bytes !== stat.size_bytes && cut?.end.isComplete === false;
    const found =
      // A client may have set its times since, to an older one.
      endings.find((each) => isOfRow(each) && stat.mtime <= each.end.at + TIMER_GRAIN) ??
      endings.find(
        ({ end }) =>
          end.inode === stat.inode &&
          (isOfThatTime(end, stat, LOG_LAG) ||
            isCutOff(end, stat) ||
            isCreatedBy(end, stat) ||
            (!isDatedAsBefore && isBegunBy(end, stat))) &&
          mayBe(end, stat) &&
          !mayBeOverwritten(end),
      ) ??
      endings.find(({ end, isAwaited }) => isAwaited !== true && !isDatedAsBefore && isLike(end, stat)) ??
      endings.find((each) => mayHaveGone(each, path, stat)) ??
      cut;
    return found?.end;
  }

  /** Whether no upload of the directory waits for its file. */
  isEmpty(directoryId: string): boolean {
    return (this.#endings.get(directoryId)?.size ?? 0) === 0;
  }

  /**
   * Removes an ending whose file has been recorded. A dropped upload with a cut-off name stays, because it may have
   * left another file.
   */
  removeEnding(directoryId: string, end: Ending): void {
    this.#endings.get(directoryId)?.remove(end);
  }

  addRow(row: FileRow): void {
    this.#rows.set(keyOf(row.directory_id, row), row);
  }

  /**
   * The removed row of this file, or a removed row that was written from the log before the file was seen.
   * @param set as in `mayHave`.
   */
  rowOf(directoryId: string, stat: FileStat, set: MaySet): FileRow | undefined {
    const row = this.#rows.get(keyOf(directoryId, stat));
    if (row && mayHave(row, stat, set)) return row;
    const unseen = this.#rows.get(keyOf(directoryId, { ...stat, inode: UNKNOWN_INODE }));
    return unseen && mayHave(unseen, stat, set) ? unseen : undefined;
  }

  /** Removes a row whose file has been found. */
  removeRow(row: FileRow): void {
    this.#rows.delete(keyOf(row.directory_id, row));
  }
}

function keyOf(directoryId: string, { inode, size_bytes }: FileIdentity): string {
  return `${directoryId} ${inode} ${inode === UNKNOWN_INODE ? size_bytes : ''}`;
}

/**
 * Whether the row was written from the log before its file was seen, and `stat` may be that file. With `isAtPath`, the
 * file is at the row's path and the inode may differ: the row may have the inode of a file that had the name before.
 */
export function isUnseen(row: FileRow, stat: FileStat, isAtPath = false): boolean {
  const { mtime, size_bytes, inode, uploaded_at } = row;
  if (mtime !== STALE_MTIME || size_bytes !== stat.size_bytes || stat.mtime > uploaded_at + TIMER_GRAIN) return false;
  return inode === stat.inode || ((isAtPath || inode === UNKNOWN_INODE) && stat.mtime > uploaded_at - RESTART_LAG);
}

/** Whether a client may have set a file's times, and when the file was created; 0 if that is not known. */
export interface MaySet {
  readonly wasSet: boolean;
  readonly bornAt: Micros;
}

/**
 * Whether a row with the file's inode, or without one, may have that file, although its upload was announced before the file was
 * seen, or a client may have set its times since.
 */
export function mayHave(row: FileRow, stat: FileStat, { wasSet, bornAt }: MaySet): boolean {
  const isOlder = bornAt <= row.uploaded_at;
  // Another file has got the inode since.
  if (row.inode >= 0 && !isOlder) return false;
  // If nobody has seen the file, it was made shortly before its upload ended, whatever times a client has set.
  const isMadeThen = row.inode === UNKNOWN_INODE && bornAt > row.uploaded_at - RESTART_LAG;
  const isOfThat = isOlder && (wasSet || isMadeThen) && row.size_bytes === stat.size_bytes;
  return isSame(row, stat) || isUnseen(row, stat) || isOfThat;
}

/**
 * The upload with a cut-off name that may have left this file. All files of a folder may share that beginning, so the
 * upload that ended closest to the file's last change comes first. A dropped upload comes before complete ones, so that
 * a partial file never passes for a whole one, unless the file has changed since, when a later upload wrote it.
 */
function cutOffAt(
  endings: readonly LostEnding[],
  path: FilePath,
  { mtime, ctime, changedAt }: FileStat & { readonly changedAt: Micros },
) {
  // Many may have been cut off after the same beginning.
  const starts = new Set(endings.map(({ cutOff }) => cutOff?.start));
  const alike = new Set([...starts].filter((start) => start !== undefined && beginsLike(path, start)));
  const possible = endings
    .filter(({ cutOff }) => alike.has(cutOff?.start))
    // An open may have been read late, as after a pause of the machine. Half a file must not pass for a copy then.
    .filter(({ end }) => changedAt >= (end.openedAt ?? changedAt) - (end.isComplete ? BUSY_LAG : RESTART_LAG))
    // A write sets both times. One after the connection broke was somebody else's.
    .filter(({ end }) => end.isComplete || mtime !== ctime || mtime <= end.at + TIMER_GRAIN)
    .toSorted((a, b) => Math.abs(a.end.at - changedAt) - Math.abs(b.end.at - changedAt));
  const latest = Math.max(...possible.map(({ end }) => (end.isComplete ? (end.openedAt ?? -Infinity) : -Infinity)));
  const isOver = (at: Micros): boolean => changedAt > at + LOG_LAG && latest > at;
  return possible.find(({ end }) => !end.isComplete && !isOver(end.at)) ?? possible[0];
}

/**
 * Whether the file is another one, which has reused the inode, or was created after the open.
 * @param bornAt 0 where the file system does not keep it.
 */
function isOther(
  { inode, bornMs = 0, openedAt, at, seen }: Ending,
  stat: FileIdentity & { readonly bornAt: Micros },
): boolean {
  if (inode === stat.inode && bornMs > 0) return bornMs * 1000 !== stat.bornAt;
  // It was seen when it was closed. The handle may have been taken for that of an earlier open, which was refused.
  if (seen?.inode === stat.inode) return stat.bornAt > at;
  return stat.bornAt > (openedAt ?? stat.bornAt) + LOG_LAG;
}

/** Whether a handle that was cut off had the file open for certain. A client may have set its times since, to older ones. */
function isCutOff(
  { isComplete, bornMs = 0, at }: Ending,
  { bornAt, mtime }: FileStat & { readonly bornAt: Micros },
): boolean {
  return !isComplete && bornMs > 0 && bornMs * 1000 === bornAt && mtime <= at + TIMER_GRAIN;
}

/** Whether the file's mtime is from when the handle was open. `lag` is how late the open may have been read. */
export function isOfThatTime({ openedAt = 0, at }: Ending, { mtime }: FileStat, lag: Micros): boolean {
  return mtime >= openedAt - lag && mtime <= at + TIMER_GRAIN;
}

/**
 * Whether the file was created when the handle was open: a client may have set its times. `lag` is how late the open may have been
 * read.
 */
function isBornIn({ openedAt, at }: Ending, { bornAt }: { readonly bornAt: Micros }, lag: Micros): boolean {
  return openedAt !== undefined && bornAt >= openedAt - lag && bornAt <= at;
}

/** Whether a handle that was cut off has created the file. The line of its open may have been read when it had been written. */
function isBegunBy(end: Ending, stat: FileStat & { readonly bornAt: Micros }): boolean {
  return !end.isComplete && isBornIn(end, stat, BUSY_LAG) && stat.mtime <= end.at + TIMER_GRAIN;
}

/** Whether the file may be one that was missing at its path, because its folder was renamed right after the open. */
function mayHaveGone(
  { end, missingAt, folderBornAt }: LostEnding,
  path: FilePath,
  stat: FileStat & { readonly bornAt: Micros },
): boolean {
  if (missingAt === undefined || end.inode !== undefined) return false;
  const names = [missingAt, withoutSuffix(missingAt)].map(baseName);
  if (!names.includes(baseName(path))) return false;
  if (folderBornAt === undefined) return isOfThatTime(end, stat, LOG_LAG);
  const folder = parentOf(missingAt);
  // A folder that is older than the file had that path when the file was created. The root keeps its path.
  const isIn = folder === parentOf(path) || (folder !== '' && (folderBornAt === 0 || folderBornAt > stat.bornAt));
  return isIn && !end.isComplete && mayBe(end, stat) && isBornIn(end, stat, BUSY_LAG);
}

/** Whether an upload whose size is not known has created the file, and a client has set the times to older ones. */
function isCreatedBy(end: Ending, stat: FileStat & { readonly bornAt: Micros }): boolean {
  return (
    end.isComplete && end.isOfUnknownSize === true && isBornIn(end, stat, LOG_LAG) && stat.mtime <= end.at + TIMER_GRAIN
  );
}

/**
 * Whether the file is small enough. A handle that began with an empty file leaves at most the bytes that it wrote, so a
 * larger file got the inode later.
 */
function mayBe({ bytes, isDoubted }: Ending, { size_bytes }: FileStat): boolean {
  return bytes === undefined || size_bytes <= bytes || isDoubted;
}

/**
 * Whether the file's size and mtime agree with what the handle wrote. The log does not count a write that was cut short,
 * so the handle's own file may be larger then. The log may be read later than elsewhere, since the size agrees, too.
 */
export function isLike(end: Ending, stat: FileStat): boolean {
  // The log has cut off how much was written.
  if (end.isOfUnknownSize) return false;
  // If the open was not logged, the file was most likely empty at that time.
  const bytes = end.bytes ?? (end.openedAt === undefined ? end.written : undefined);
  const mayBeLarger = end.isDoubted && end.inode === stat.inode;
  const isOfSize = bytes === stat.size_bytes || (mayBeLarger && bytes !== undefined && stat.size_bytes > bytes);
  return isOfSize && isOfThatTime(end, stat, BUSY_LAG);
}
