/**
 * What has lost its file for the moment: ends of uploads whose file is not where the log has it, or whose name the log
 * has cut off, and rows that were removed because nothing was there. A look that finds a file which nothing explains
 * matches it by its inode, by its size and time, or by the beginning of its name.
 */
import { LRUCache } from 'lru-cache';
import type { Micros } from '../../clock.ts';
import { type FilePath, filePath } from '../file-path.ts';
import type { Close, HandleEnd } from './evidence.ts';
import type { FileRow } from './files.ts';
import { type FileStat, isSame, LOG_LAG, TIMER_GRAIN } from './file-stat.ts';

/** How many are remembered of all directories, and for how long, in ms: a scan comes sooner. */
const REMEMBERED = { max: 10_000, ttl: 60_000 };

/** How late the log may be heard on a machine that is too busy. Enough when the size agrees, too. */
const BUSY_LAG: Micros = 2_000_000;

/** Ends of uploads of one directory. */
const CLOSES = 1000;

type UnmatchedClose = Close & {
  /** The logged name's beginning, or the whole of it with wording from a `"` on. */
  readonly nameStart?: string;
};

export class Unmatched {
  /** By directory, the newest first. */
  readonly #closes = new LRUCache<string, readonly UnmatchedClose[]>(REMEMBERED);
  readonly #rows = new LRUCache<string, FileRow>(REMEMBERED);
  /** What was written before such a moment may not have been heard. */
  readonly #heardFrom: Micros[] = [];

  /** Jails have been linked to the log. */
  heardFrom(at: Micros): void {
    this.#heardFrom.push(at);
  }

  /** Whether nothing of that directory is looked for. */
  isEmpty(directoryId: string): boolean {
    return !this.#closes.has(directoryId);
  }

  addClose(directoryId: string, close: UnmatchedClose): void {
    const others = this.#closes.get(directoryId) ?? [];
    this.#closes.set(directoryId, [close, ...others].slice(0, CLOSES));
  }

  addCutClose(directoryId: string, nameStart: string, end: HandleEnd): void {
    this.addClose(directoryId, { ...end, nameStart, path: '', openedAt: undefined, inode: undefined, order: 0 });
  }

  /** The upload that this file may be, if it has not changed since. */
  closeOf(directoryId: string, stat: FileStat): Close | undefined {
    const closes = this.#closes.get(directoryId) ?? [];
    return (
      closes.find((close) => close.inode === stat.inode && isOfThatTime(close, stat, LOG_LAG)) ??
      closes.find((close) => isLike(close, stat) && !this.#isOlder(stat, close))
    );
  }

  /** Whether the log was not heard yet when the file was written, but was when the handle was opened. */
  #isOlder({ mtime }: FileStat, { openedAt = 0 }: Close): boolean {
    return this.#heardFrom.some((at) => mtime < at && openedAt >= at);
  }

  /**
   * The upload whose name begins like that path. Of several the one that ended when the file was changed last, be it that
   * a client has set its times or its name since: all files of a folder may begin alike.
   */
  cutCloseOf(directoryId: string, path: FilePath, { mtime }: FileStat, changedAt: Micros): Close | undefined {
    const closes = this.#closes.get(directoryId) ?? [];
    const [nearest] = closes
      .filter(
        ({ nameStart, at }) => nameStart !== undefined && beginsLike(path, nameStart) && mtime <= at + TIMER_GRAIN,
      )
      .sort((a, b) => Math.abs(a.at - changedAt) - Math.abs(b.at - changedAt));
    return nearest && { ...nearest, path };
  }

  /** What was found by the beginning of its name was a copy. */
  removeClose(directoryId: string, { by, at }: Close): void {
    const others = this.#closes.get(directoryId)?.filter((other) => other.by !== by || other.at !== at);
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

/** Whether the file may have been written through that handle, by its time; its open may have been heard so late. */
function isOfThatTime({ openedAt = 0, at }: Close, { mtime }: FileStat, lag: Micros): boolean {
  return mtime >= openedAt - lag && mtime <= at + TIMER_GRAIN;
}

/** Whether the file was written through that handle, by its size and time. */
export function isLike(close: Close, stat: FileStat): boolean {
  return close.bytes === stat.size_bytes && isOfThatTime(close, stat, BUSY_LAG);
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
