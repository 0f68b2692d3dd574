/**
 * What has lost its file for the moment: uploads whose file had no name when they ended, closes whose name the log has cut
 * off, and rows that were removed because nothing was there. A look that finds a file which nothing explains matches it.
 */
import { LRUCache } from 'lru-cache';
import { type Micros, SECOND } from '../../clock.ts';
import { type FilePath, filePath } from '../file-path.ts';
import type { FileRow } from '../record/files.ts';
import { type FileStat, isSame, LOG_LAG, TIMER_GRAIN, UNSEEN, UNSEEN_INODE } from '../record/file-stat.ts';
import type { Ending } from './operations.ts';

/** How many are remembered of all directories, and for how long, in ms: a comparison comes sooner. */
const REMEMBERED = { max: 10_000, ttl: 60_000 };

/** How late the log may be heard on a machine that is too busy. Enough when the size agrees, too. */
const BUSY_LAG: Micros = 2_000_000;

/** How late an upload may be heard of that was announced before its file was seen. */
const LATEST: Micros = 60 * SECOND;

/** Endings of one directory. */
const ENDINGS = 1000;

interface LostEnding {
  readonly end: Ending;
  /** The beginning of the logged name, or the whole of it with wording from a `"` on. */
  readonly nameStart: string | undefined;
}

export class Lost {
  /** By directory, the newest first. */
  readonly #endings = new LRUCache<string, readonly LostEnding[]>(REMEMBERED);
  readonly #rows = new LRUCache<string, FileRow>(REMEMBERED);

  addEnding(directoryId: string, end: Ending, nameStart?: string): void {
    const others = this.#endings.get(directoryId) ?? [];
    this.#endings.set(directoryId, [{ end, nameStart }, ...others].slice(0, ENDINGS));
  }

  /** The upload that this file may be, if it has not changed since; none of those that are `matched` already. */
  endingOf(
    directoryId: string,
    path: FilePath,
    stat: FileStat,
    changedAt: Micros,
    matched: readonly Ending[],
  ): Ending | undefined {
    const endings = (this.#endings.get(directoryId) ?? []).filter(
      ({ end, nameStart }) => !matched.includes(end) || (!end.isComplete && nameStart !== undefined),
    );
    const found =
      endings.find(({ end }) => end.inode === stat.inode && isOfThatTime(end, stat, LOG_LAG) && mayBe(end, stat)) ??
      endings.find(({ end }) => isLike(end, stat)) ??
      cutOffAt(endings, path, stat, changedAt);
    return found?.end;
  }

  /** Whether no file of that directory is looked for. */
  isEmpty(directoryId: string): boolean {
    return (this.#endings.get(directoryId)?.length ?? 0) === 0;
  }

  /** Its file has been recorded. One that was cut off, and whose name nobody knows, may still be another file's. */
  removeEnding(directoryId: string, end: Ending): void {
    const others = this.#endings
      .get(directoryId)
      ?.filter((other) => other.end !== end || (!end.isComplete && other.nameStart !== undefined));
    if (others) this.#endings.set(directoryId, others);
  }

  addRow(row: FileRow): void {
    this.#rows.set(keyOf(row.directory_id, row), row);
  }

  /** The row that a file had, or that was written for it before it was seen. */
  rowOf(directoryId: string, stat: FileStat): FileRow | undefined {
    const row = this.#rows.get(keyOf(directoryId, stat));
    if (row && (isSame(row, stat) || isUnseen(row, stat))) return row;
    const unseen = this.#rows.get(keyOf(directoryId, { ...stat, inode: UNSEEN_INODE }));
    return unseen && isUnseen(unseen, stat) ? unseen : undefined;
  }

  /** Its file has been found. */
  removeRow(row: FileRow): void {
    this.#rows.delete(keyOf(row.directory_id, row));
  }
}

function keyOf(directoryId: string, { inode, size_bytes }: FileStat): string {
  return `${directoryId} ${inode} ${inode === UNSEEN_INODE ? size_bytes : ''}`;
}

/**
 * Whether the row is of an upload that was announced before its file was seen, and the file may be that one. At its own path
 * the inode proves nothing: it may be that of a file which had the name before.
 */
export function isUnseen(row: FileRow, stat: FileStat, isAtPath = false): boolean {
  const { mtime, size_bytes, inode, uploaded_at } = row;
  if (mtime !== UNSEEN || size_bytes !== stat.size_bytes || stat.mtime > uploaded_at + TIMER_GRAIN) return false;
  return inode === stat.inode || ((isAtPath || inode === UNSEEN_INODE) && stat.mtime > uploaded_at - LATEST);
}

/**
 * Of several the one that ended when the file was changed last: all files of a folder may begin alike. One that may be the file of
 * an upload that was cut off is never taken for a whole one: times do not tell them apart, since the log is heard late.
 */
function cutOffAt(endings: readonly LostEnding[], path: FilePath, { mtime }: FileStat, changedAt: Micros) {
  const possible = endings
    .filter(
      ({ end, nameStart }) => nameStart !== undefined && beginsLike(path, nameStart) && mtime <= end.at + TIMER_GRAIN,
    )
    .sort((a, b) => Math.abs(a.end.at - changedAt) - Math.abs(b.end.at - changedAt));
  return possible.find(({ end }) => !end.isComplete) ?? possible[0];
}

/** Whether the file may have been written through that handle, by its time; its open may have been heard so late. */
function isOfThatTime({ openedAt = 0, at }: Ending, { mtime }: FileStat, lag: Micros): boolean {
  return mtime >= openedAt - lag && mtime <= at + TIMER_GRAIN;
}

/** A handle that began with an empty file leaves no more than it wrote: a larger file got the inode later. */
function mayBe({ bytes }: Ending, { size_bytes }: FileStat): boolean {
  return bytes === undefined || size_bytes <= bytes;
}

/** Whether the file was written through that handle, by its size and time. */
export function isLike(end: Ending, stat: FileStat): boolean {
  // A file whose open was not heard was empty then, mostly.
  const bytes = end.bytes ?? (end.openedAt === undefined ? end.written : undefined);
  return bytes === stat.size_bytes && isOfThatTime(end, stat, BUSY_LAG);
}

function beginsLike(path: FilePath, start: string): boolean {
  // The folders of a name can be spelled in many ways; its last component was cut, or hides the wording.
  const cut = start.lastIndexOf('/') + 1;
  const folder = filePath(`${start.slice(0, cut)}x`)?.slice(0, -1);
  if (folder === undefined || !path.startsWith(folder)) return false;
  const [name = ''] = path.slice(folder.length).split('/', 1);
  const said = start.slice(cut);
  return name.startsWith(said) || said.startsWith(`${name}"`);
}
