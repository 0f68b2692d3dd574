/**
 * A rename or a removal that may yet be refused: sshd has logged it, and nobody knows whether it was done. What the session
 * says next proves that it was, unless that is a refusal; the disk may show it before.
 */
import type { Micros } from '../../clock.ts';
import type { FilePath } from '../file-path.ts';
import type { Sighting } from '../log/journal-record.ts';
import type { LogEvent } from '../log/log-line.ts';
import { TIMER_GRAIN } from '../record/file-stat.ts';
import type { File, Session } from './sessions.ts';
import type { TrackedFiles } from './tracked-files.ts';

/** When the disk is asked, in ms after the line was read; then the log is believed. */
const LOOKS_MS = [0, 2, 10, 50, 200, 700];

export interface ChangeOptions {
  readonly from: FilePath;
  /** Undefined for a removal. */
  readonly to: FilePath | undefined;
  readonly session: Session;
  readonly at: Micros;
  /** What lay at `from` and `to` when the line was read. */
  readonly seen: readonly (Sighting | null)[] | undefined;
}

/** What a session said next. */
export interface Answer {
  readonly event: LogEvent;
  /** What lay at the paths of the change when that was read. */
  readonly seen?: readonly (Sighting | null)[] | undefined;
}

export type Verdict =
  | 'open'
  | 'refused'
  /** Proved by the session's next request. */
  | 'certain'
  /** By what the disk shows, or by the word of the log. */
  | 'likely';

export class PendingChange {
  readonly change: ChangeOptions;
  /** What the session said next, once that is in the queue. */
  answer: Answer | undefined;
  readonly #since: number;
  #looks = 0;

  /** @param now by the monotonic clock, in ms. */
  constructor(change: ChangeOptions, now: number) {
    this.change = change;
    this.#since = now;
  }

  /** When the disk is to be asked next, by the monotonic clock in ms. */
  get nextLook(): number {
    return this.#since + (LOOKS_MS[this.#looks] ?? 0);
  }

  verdict(files: TrackedFiles, lstat: (path: FilePath) => Sighting | undefined, now: number): Verdict {
    // A session does one thing after the other: what it asked for before was done, or a refusal would follow it.
    if (this.answer && this.answer.event.kind !== 'status') return 'certain';
    if (!this.answer && now < this.nextLook) return 'open';
    this.#looks += 1;
    if (this.#isShown(files, lstat)) return 'likely';
    // The refusal may be that of an unlogged request, but nothing speaks for it.
    if (this.answer) return 'refused';
    return this.#looks < LOOKS_MS.length ? 'open' : 'likely';
  }

  /** Whether the disk shows that it was done. */
  #isShown(files: TrackedFiles, lstat: (path: FilePath) => Sighting | undefined): boolean {
    const { from, to, seen } = this.change;
    const file = files.at(from);
    // Later requests may have changed that since.
    const [leftThen, arrivedThen] = seen ?? [];
    if (file?.inode !== undefined && leftThen?.ino !== file.inode && arrivedThen?.ino === file.inode) return true;
    // Nor is the disk of now that of then: what lay there when the answer was read is nearer to the fact.
    const [answered, answeredTo] = this.answer?.seen ?? [];
    const left = answered === undefined ? lstat(from) : (answered ?? undefined);
    const at = (path: FilePath): Sighting | undefined =>
      path === to && answeredTo !== undefined ? (answeredTo ?? undefined) : lstat(path);
    if (to === undefined) return !left || (file?.inode !== undefined && left.ino !== file.inode);
    // A rename onto another file gets this answer, and little that is not logged does.
    const isFailure = this.answer?.event.kind === 'status' && this.answer.event.text === 'Failure';
    const isClosed = (file?.writers.size ?? 0) === 0;
    if (isFailure && isClosed && file) {
      return file.inode !== undefined && left?.ino !== file.inode && at(to)?.ino === file.inode;
    }
    const arrived = at(to);
    // The log has a file there, and it has gone: that much is also so when a rename was refused and the file removed after it.
    if (file !== undefined && (file.inode !== undefined || file.puts.length > 0)) {
      // The inode may be that of a file which had the name when the open was read.
      const isLike = left !== undefined && file.puts.at(-1)?.end.bytes === left.size;
      const isGone = !left || (file.inode !== undefined && left.ino !== file.inode && !isLike);
      return isGone && (this.answer !== undefined || (arrived !== undefined && mayBe(file, arrived)));
    }
    if (left || !arrived) return false;
    const child = files.knownBelow(from);
    if (child) return lstat(to + child.path.slice(from.length))?.ino === child.inode;
    if (files.isAnyKnownAt(to)) return false;
    // What is there may be a file for which the rename was refused.
    if (this.answer) return !(isFailure && isClosed);
    return seen === undefined || arrived.ino === leftThen?.ino;
  }
}

/** Whether what lies there may be that file, and not an older one. */
function mayBe({ inode, wasSet, puts }: File, { ino, mtimeMs }: Sighting): boolean {
  if (inode !== undefined) return ino === inode;
  const openedAt = puts.at(-1)?.end.openedAt ?? 0;
  return wasSet || mtimeMs * 1000 >= openedAt - TIMER_GRAIN;
}
