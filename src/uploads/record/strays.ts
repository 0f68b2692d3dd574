/**
 * What has lost its file for the moment: ends of uploads whose file is not where the log has it, and rows that were
 * removed because nothing was there. Sessions that rename under each other's feet cause both. When a look meets the file
 * under another name, it is known by its inode, or by its size and time.
 */
import { LRUCache } from 'lru-cache';
import type { Close } from './evidence.ts';
import type { FileRow } from './files.ts';
import { type FileStat, isSame, TIMER_GRAIN } from './file-stat.ts';

/** How many are remembered of all directories, and for how long, in ms: a scan comes sooner. */
const REMEMBERED = { max: 10_000, ttl: 60_000 };

/** Ends of uploads of one directory whose inode nobody saw. */
const UNSEEN_INODES = 100;

export class Strays {
  readonly #closes = new LRUCache<string, Close>(REMEMBERED);
  readonly #unseen = new LRUCache<string, Close[]>(REMEMBERED);
  readonly #rows = new LRUCache<string, FileRow>(REMEMBERED);

  addClose(directoryId: string, close: Close): void {
    if (close.inode === undefined) {
      const others = this.#unseen.get(directoryId) ?? [];
      this.#unseen.set(directoryId, [close, ...others].slice(0, UNSEEN_INODES));
      return;
    }
    const key = `${directoryId} ${close.inode}`;
    const known = this.#closes.get(key);
    if (!known || known.order <= close.order) this.#closes.set(key, close);
  }

  /** The upload that this file may be, if it has not changed since. */
  closeOf(directoryId: string, stat: FileStat): Close | undefined {
    const known = this.#closes.get(`${directoryId} ${stat.inode}`);
    if (known) return stat.mtime <= known.at + TIMER_GRAIN ? known : undefined;
    return this.#unseen.get(directoryId)?.find(({ bytes, openedAt = 0, at }) => {
      const isThen = stat.mtime >= openedAt - TIMER_GRAIN && stat.mtime <= at + TIMER_GRAIN;
      return isThen && bytes === stat.size_bytes;
    });
  }

  /** It has met its file. */
  removeClose(directoryId: string, close: Close): void {
    this.#closes.delete(`${directoryId} ${close.inode}`);
    const others = this.#unseen.get(directoryId)?.filter((other) => other !== close);
    if (others) this.#unseen.set(directoryId, others);
  }

  addRow(row: FileRow): void {
    this.#rows.set(`${row.directory_id} ${row.inode}`, row);
  }

  rowOf(directoryId: string, stat: FileStat): FileRow | undefined {
    const row = this.#rows.get(`${directoryId} ${stat.inode}`);
    return row && isSame(row, stat) ? row : undefined;
  }
}
