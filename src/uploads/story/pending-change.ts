/**
 * A rename or a removal that sshd has logged and may still refuse. The session's next line proves that it was done,
 * unless that line is a refusal. The disk may show it sooner.
 */
import type { Micros } from '../../base/clock.ts';
import type { FilePath } from '../file-path.ts';
import type { Sighting } from '../log/journal-record.ts';
import type { LogEvent } from '../log/log-line.ts';
import { fileStat, TIMER_GRAIN } from '../record/file-stat.ts';
import { isLike } from './lost.ts';
import type { File, Session } from './sessions.ts';
import type { TrackedFiles } from './tracked-files.ts';

/** When to check the disk, in ms after the line was read. After the last check the log is believed. */
const LOOKS_MS = [0, 2, 10, 50, 200, 700];

export interface ChangeOptions {
  readonly from: FilePath;
  /** Undefined for a removal. */
  readonly to: FilePath | undefined;
  readonly session: Session;
  readonly at: Micros;
  /** The files at `from` and `to` when the line was read. */
  readonly seen: readonly (Sighting | null)[] | undefined;
}

/** The session's next line. */
export interface Answer {
  readonly event: LogEvent;
  /** The files at the paths of the change when that line was read. */
  readonly seen?: readonly (Sighting | null)[] | undefined;
}

export type Verdict =
  | 'open'
  | 'refused'
  /** Proved by the session's next request. */
  | 'certain'
  /** The disk shows it, or the log says so and nothing has refused it. */
  | 'likely';

export class PendingChange {
  readonly change: ChangeOptions;
  /** The session's next line, once it is in the queue. */
  answer: Answer | undefined;
  readonly #since: number;
  #looks = 0;

  /** @param now by the monotonic clock, in ms. */
  constructor(change: ChangeOptions, now: number) {
    this.change = change;
    this.#since = now;
  }

  /** When to check the disk next, by the monotonic clock in ms. */
  get nextLook(): number {
    return this.#since + (LOOKS_MS[this.#looks] ?? 0);
  }

  verdict(files: TrackedFiles, lstat: (path: FilePath) => Sighting | undefined, now: number): Verdict {
    // A session handles one request after the other. If this one had been refused, the refusal would have come next.
    if (this.answer && this.answer.event.kind !== 'status') return 'certain';
    if (!this.answer && now < this.nextLook) return 'open';
    this.#looks += 1;
    if (this.#isShown(files, lstat)) return 'likely';
    // The refusal may answer a request that is not logged, but nothing suggests that.
    if (this.answer) return 'refused';
    return this.#looks < LOOKS_MS.length ? 'open' : 'likely';
  }

  /** Whether the disk shows that the change was done. */
  #isShown(files: TrackedFiles, lstat: (path: FilePath) => Sighting | undefined): boolean {
    const { from, to, seen } = this.change;
    const file = files.at(from);
    // Compare the files that were seen when the line was read, because later requests may have changed them since.
    const [leftThen, arrivedThen] = seen ?? [];
    if (file?.inode !== undefined && leftThen?.ino !== file.inode && arrivedThen?.ino === file.inode) return true;
    // Prefer the files that were seen when the answer was read, because the disk may have changed since.
    const [answered, answeredTo] = this.answer?.seen ?? [];
    const left = answered === undefined ? lstat(from) : (answered ?? undefined);
    const at = (path: FilePath): Sighting | undefined =>
      path === to && answeredTo !== undefined ? (answeredTo ?? undefined) : lstat(path);
    if (to === undefined) return !left || (file?.inode !== undefined && left.ino !== file.inode);
    // sshd answers `Failure` to a rename onto an existing file, and to few requests that are not logged.
    const isFailure = this.answer?.event.kind === 'status' && this.answer.event.text === 'Failure';
    const isClosed = file?.hasOpenWriters() !== true;
    if (isFailure && isClosed && file) {
      return file.inode !== undefined && left?.ino !== file.inode && at(to)?.ino === file.inode;
    }
    const arrived = at(to);
    // The log has a file at `from`. Its absence alone proves nothing: the rename may have been refused and the file
    // removed afterwards.
    if (file !== undefined && (file.inode !== undefined || file.puts.length > 0)) {
      // The known inode may be that of a file that had the name when the open was read.
      const end = file.puts.at(-1)?.end;
      const isIt = (found: Sighting | undefined): boolean =>
        end !== undefined && found !== undefined && isLike(end, fileStat(found));
      // Where nothing is at `from`, the file may have been removed after a refusal.
      if (left && isIt(arrived) && !isIt(left)) return true;
      const isGone = !left || (file.inode !== undefined && left.ino !== file.inode && end?.bytes !== left.size);
      return isGone && (this.answer !== undefined || (arrived !== undefined && mayBe(file, arrived)));
    }
    // Compare a file below the folder, because another folder may have the name by now.
    const child = files.knownBelow(from);
    if (child) return lstat(to + child.path.slice(from.length))?.ino === child.inode;
    if (left || !arrived) return false;
    if (files.isAnyKnownAt(to)) return false;
    // The file that is there may be the reason why the rename was refused.
    if (this.answer) return !(isFailure && isClosed);
    return seen === undefined || arrived.ino === leftThen?.ino;
  }
}

/** Whether the file that was seen may be the story's file rather than an older one. */
function mayBe({ inode, wasSet, puts }: File, { ino, mtimeMs }: Sighting): boolean {
  if (inode !== undefined) return ino === inode;
  const openedAt = puts.at(-1)?.end.openedAt ?? 0;
  return wasSet || mtimeMs * 1000 >= openedAt - TIMER_GRAIN;
}
