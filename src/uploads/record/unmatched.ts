/**
 * What has lost its file for the moment: ends of uploads whose file is not where the log has it, and rows that were
 * removed because nothing was there. Sessions that rename folders under each other cause both. A look that finds the
 * file under another name matches it by its inode, or by its size and time.
 */
import { LRUCache } from 'lru-cache';
import type { Close } from './evidence.ts';
import type { FileRow } from './files.ts';
import { type FileStat, isSame, LOG_LAG, TIMER_GRAIN } from './file-stat.ts';

/** How many are remembered of all directories, and for how long, in ms: a scan comes sooner. */
const REMEMBERED = { max: 10_000, ttl: 60_000 };

/** Ends of uploads of one directory. */
const CLOSES = 500;

export class Unmatched {
  /** By directory, the newest first. */
  readonly #closes = new LRUCache<string, readonly Close[]>(REMEMBERED);
  readonly #rows = new LRUCache<string, FileRow>(REMEMBERED);

  addClose(directoryId: string, close: Close): void {
    const others = this.#closes.get(directoryId) ?? [];
    this.#closes.set(directoryId, [close, ...others].slice(0, CLOSES));
  }

  /** The upload that this file may be, if it has not changed since. */
  closeOf(directoryId: string, stat: FileStat): Close | undefined {
    const closes = this.#closes.get(directoryId) ?? [];
    return (
      closes.find((close) => close.inode === stat.inode && isOfThatTime(close, stat)) ??
      closes.find((close) => isLike(close, stat))
    );
  }

  removeClose(directoryId: string, close: Close): void {
    const others = this.#closes.get(directoryId)?.filter((other) => other !== close);
    if (others) this.#closes.set(directoryId, others);
  }

  addRow(row: FileRow): void {
    this.#rows.set(`${row.directory_id} ${row.inode}`, row);
  }

  rowOf(directoryId: string, stat: FileStat): FileRow | undefined {
    const row = this.#rows.get(`${directoryId} ${stat.inode}`);
    return row && isSame(row, stat) ? row : undefined;
  }
}

/** Whether the file may have been written through that handle, by its time. */
function isOfThatTime({ openedAt = 0, at }: Close, { mtime }: FileStat): boolean {
  return mtime >= openedAt - LOG_LAG && mtime <= at + TIMER_GRAIN;
}

/** Whether the file was written through that handle, by its size and time. */
export function isLike(close: Close, stat: FileStat): boolean {
  return close.bytes === stat.size_bytes && isOfThatTime(close, stat);
}
