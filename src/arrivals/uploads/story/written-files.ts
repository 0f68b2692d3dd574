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
import { BUSY_LAG, LOG_LAG, TIMER_GRAIN } from '../record/file-stat.ts';

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

interface Explained {
  readonly file: FileAlike;
  /** Whether its last handle was closed: otherwise it is part of a file. */
  readonly isWhole: boolean;
  /** A client has asked to rename it or to set its times: sshd does that after it has logged it, until then at the latest. */
  readonly changesUntil?: Micros;
}

export class WrittenFiles {
  /** Each file as the last line about it has explained it, by inode. An `LRUCache` would take 40 KB for each live directory. */
  readonly #explained = new Map<number, Explained>();
  #broken: readonly Broken[] = [];

  /** A line has ended a handle of that file. */
  ended(file: FileAlike, isWhole: boolean): void {
    this.#explained.delete(file.ino);
    this.#explained.set(file.ino, { file, isWhole });
    // What was sent again as a whole is not half any more, whatever time the client has set.
    if (isWhole) this.#broken = this.#broken.filter(({ inode }) => inode !== file.ino);
    const [oldest] = this.#explained.keys();
    if (oldest !== undefined && this.#explained.size > FILES) this.#explained.delete(oldest);
  }

  /**
   * A client renamed one of these files, or set its times. None of them is open.
   * @param latest the path of the one that the session has closed last: clients set a file's times after that.
   */
  touched(alike: readonly FileAlike[] = [], latest?: FilePath): void {
    const touched = alike.flatMap((file) => {
      const explained = this.#explained.get(file.ino);
      const isTouched = explained && !isAsWritten(file) && explained.file.sinceMs !== file.sinceMs;
      return isTouched ? [{ file, isWhole: explained.isWhole }] : [];
    });
    const [only, second] = touched;
    const one = latest === undefined ? !second && only : touched.find(({ file }) => file.path === latest);
    if (one) this.ended(one.file, one.isWhole);
  }

  /** A client has asked at that time to rename that file, or to set its times. */
  changes(path: FilePath, at: Micros): void {
    for (const [inode, explained] of this.#explained)
      if (explained.file.path === path) this.#explained.set(inode, { ...explained, changesUntil: at + TIMER_GRAIN });
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
    const free = alike.filter(
      (file) => !this.#isHalf(file, isOwn(file)) && held.every(({ inode }) => inode !== file.ino),
    );
    const isAmongOthers = alike.length > 1;
    const changes = free.map((file) => ({ file, change: this.#changeOf(file, openedAt, isAmongOthers) }));
    const changed = changes.filter(({ change }) => change === 'changed').map(({ file }) => file);
    const elsewhere = changed.map(isHeldElsewhere);
    if (elsewhere.includes(undefined) || changed.some((file) => this.#mayBeHalf(file))) return undefined;
    // A client may have set the times of a file only, or renamed it.
    const rank = (file: FileAlike): number => (isOwn(file) ? 0 : isAsWritten(file) ? 1 : 2);
    const [first] = changed
      .filter((_, index) => elsewhere[index] === false)
      .toSorted((a, b) => rank(a) - rank(b) || (a.sinceMs ?? 0) - (b.sinceMs ?? 0));
    const isCertain = first !== undefined && rank(first) < 2;
    if (!isCertain && changes.some(({ change }) => change === 'unclear')) return undefined;
    return first ? { file: first, isCertain } : 'none';
  }

  /** Whether nobody has changed the file with that inode since the last line about it. */
  isUnchanged(alike: readonly FileAlike[] = [], inode: number | undefined): boolean {
    const file = alike.find(({ ino }) => ino === inode);
    return file !== undefined && this.#explained.get(file.ino)?.file.sinceMs === file.sinceMs;
  }

  /**
   * What has happened to a file since the last line about it. What has left part of a file is never taken for a whole one.
   * @param isAmongOthers whether the handle may have been one of another file.
   */
  #changeOf(file: FileAlike, openedAt: Micros, isAmongOthers: boolean): 'none' | 'changed' | 'unclear' {
    const { ino, size, mtimeMs, sinceMs = 0, birthtimeMs = 0 } = file;
    const known = this.#explained.get(ino);
    // On a busy machine, or while berth is started again, the line of the open is read late.
    const isSince = (ms: number, lag: Micros): boolean => ms * 1000 >= openedAt - lag;
    if (!isSince(sinceMs, BUSY_LAG)) return 'none';
    if (!known) {
      const isWritten = isSince(birthtimeMs, LOG_LAG) || (isAsWritten(file) && isSince(sinceMs, LOG_LAG));
      return isWritten ? 'changed' : 'unclear';
    }
    const { changesUntil = 0 } = known;
    const isAsked = known.file.size === size && !isAsWritten(file) && sinceMs * 1000 <= changesUntil;
    if (known.file.sinceMs === sinceMs || (isAsked && isAmongOthers)) return 'none';
    if (known.isWhole || isAsWritten(file)) return 'changed';
    return known.file.size === size && known.file.mtimeMs === mtimeMs ? 'none' : 'unclear';
  }

  /**
   * Whether the kernel has shown that the file was cut off, and nobody has written it since. A client may have set its times since,
   * unless it had the file open.
   */
  #isHalf(file: FileAlike, isOwn: boolean): boolean {
    const isStill = (each: Broken): boolean => isOfThatTime(each, file) || (!isOwn && !isAsWritten(file));
    return this.#broken.some((each) => each.inode === file.ino && isStill(each));
  }

  /** Whether the file may be one that was cut off, and that the kernel has not shown. */
  #mayBeHalf(file: FileAlike): boolean {
    return this.#broken.some(
      (each) => each.inode === undefined && isOfThatTime(each, file) && beginsLike(file.path, each.start),
    );
  }
}

/** Whether the file was changed or written last while it was open. */
function isOfThatTime({ from, until }: Broken, { sinceMs = 0, mtimeMs }: FileAlike): boolean {
  return [sinceMs, mtimeMs].some((ms) => ms * 1000 >= from - LOG_LAG && ms * 1000 <= until + TIMER_GRAIN);
}

/** Whether the last change of the file was a write: this changes both times at once. */
function isAsWritten({ mtimeMs, sinceMs }: FileAlike): boolean {
  return mtimeMs === sinceMs;
}
