/**
 * Finds the file of a handle that the kernel has never shown: a client opens, writes and closes a small file before berth
 * reads the line of the open. Its name is cut off, but the ctimes of the files that it may mean show which was written.
 *
 * Promise: a file that somebody may still be writing, or that was cut off, is never taken for one that was closed.
 */
import type { Micros } from '../../../foundation/base/clock.ts';
import { beginsLike, type FilePath } from '../file-path.ts';
import type { FileAlike } from '../log/journal-record.ts';
import type { HeldPath } from '../processes.ts';
import { LOG_LAG, TIMER_GRAIN } from '../record/file-stat.ts';

/** How many files, and how many opens that were cut off, are remembered. */
const FILES = 1000;
const BROKEN = 100;

/** An open whose process died, or one with a cut-off name whose connection broke: it has left part of a file. */
interface Broken {
  readonly start: string;
  /** Undefined if the kernel has not shown the file. */
  readonly inode: number | undefined;
  readonly from: Micros;
  readonly until: Micros;
}

/** A close whose name the log has cut off, and what the kernel showed when its line was read. */
export interface Closing {
  /** When a file that the name may mean was opened; undefined if that was not logged. */
  readonly openedAt: Micros | undefined;
  readonly alike: readonly FileAlike[] | undefined;
  /** What the process held. */
  readonly held: readonly HeldPath[] | undefined;
  /** Whether the session had that file open. */
  isOwn(file: FileAlike): boolean;
  /** Whether another session may have the file open. Undefined if the kernel cannot be asked. */
  isHeldElsewhere(file: FileAlike): boolean | undefined;
}

/** The file that a closed handle has written. */
export interface Written {
  readonly file: FileAlike;
  /** Whether it was written for certain. */
  readonly isCertain: boolean;
}

export class WrittenFiles {
  /** The ctime of each file, in ms, that a line has explained, by inode. An `LRUCache` would take 40 KB for each live directory. */
  readonly #explained = new Map<number, number>();
  #broken: readonly Broken[] = [];

  /** A line has ended a handle of the file with that inode. */
  ended(inode: number | undefined, alike: readonly FileAlike[] = []): void {
    const file = alike.find(({ ino }) => ino === inode);
    if (file?.sinceMs === undefined) return;
    this.#explained.delete(file.ino);
    this.#explained.set(file.ino, file.sinceMs);
    const [oldest] = this.#explained.keys();
    if (oldest !== undefined && this.#explained.size > FILES) this.#explained.delete(oldest);
  }

  /**
   * A client renamed one of these files, or set its times. None of them is open.
   * @param latest the path of the one that the session has closed last: clients set a file's times after that.
   */
  touched(alike: readonly FileAlike[] = [], latest?: FilePath): void {
    const isTouched = (file: FileAlike): boolean => !isAsWritten(file) && this.#explained.has(file.ino);
    const touched = alike.filter((file) => isTouched(file) && this.#explained.get(file.ino) !== file.sinceMs);
    const file = latest === undefined ? touched[0] : touched.find(({ path }) => path === latest);
    if (file && (latest !== undefined || touched.length === 1)) this.ended(file.ino, [file]);
  }

  /** A file was cut off whose name begins like that. With an inode, it is that file. */
  broke(start: string, from: Micros, until: Micros, inode?: number): void {
    this.#broken = [{ start, inode, from, until }, ...this.#broken].slice(0, BROKEN);
  }

  /**
   * The file that the closed handle has written: of several, one that the session had open, or else the one that was written
   * first. `'none'` if it has written nothing; undefined if nobody can tell.
   */
  closed({ openedAt, alike, held, isOwn, isHeldElsewhere }: Closing): Written | 'none' | undefined {
    if (openedAt === undefined || !held || !alike || alike.length === 0) return undefined;
    const changed = alike.filter(
      (file) =>
        this.#isChanged(file, openedAt) &&
        !this.#isBroken(file, file.ino) &&
        held.every(({ inode }) => inode !== file.ino),
    );
    const elsewhere = changed.map(isHeldElsewhere);
    if (elsewhere.includes(undefined) || changed.some((file) => this.#isBroken(file, undefined))) return undefined;
    // A client may have set the times of a file only, or renamed it.
    const rank = (file: FileAlike): number => (isOwn(file) ? 0 : isAsWritten(file) ? 1 : 2);
    const [first] = changed
      .filter((_, index) => elsewhere[index] === false)
      .toSorted((a, b) => rank(a) - rank(b) || (a.sinceMs ?? 0) - (b.sinceMs ?? 0));
    return first ? { file: first, isCertain: rank(first) < 2 } : 'none';
  }

  #isChanged({ ino, sinceMs = 0 }: FileAlike, openedAt: Micros): boolean {
    const explained = this.#explained.get(ino);
    return explained === undefined ? sinceMs * 1000 >= openedAt - LOG_LAG : sinceMs !== explained;
  }

  /** Whether a file that was cut off, and that has this inode as far as the kernel has shown it, may be this one. */
  #isBroken({ path, sinceMs = 0 }: FileAlike, ino: number | undefined): boolean {
    return this.#broken.some(
      ({ start, inode, from, until }) =>
        inode === ino &&
        sinceMs * 1000 >= from - LOG_LAG &&
        sinceMs * 1000 <= until + TIMER_GRAIN &&
        (inode !== undefined || beginsLike(path, start)),
    );
  }
}

/** Whether the last change of the file was a write: this changes both times at once. */
function isAsWritten({ mtimeMs, sinceMs }: FileAlike): boolean {
  return mtimeMs === sinceMs;
}
