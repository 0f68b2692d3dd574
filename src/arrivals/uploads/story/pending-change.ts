/**
 * A rename or a removal that sshd has logged and may still refuse. The session's next line decides: a refusal is the
 * answer to this change, and any other line proves that it was done. While the session is silent, the disk may show the
 * outcome sooner.
 *
 * A refusal that may answer a request that is not logged (`Session.isAnswer`) proves nothing if the disk shows that the
 * change was done.
 */
import type { Micros } from '../../../foundation/base/clock.ts';
import type { FilePath } from '../file-path.ts';
import type { Observation } from '../log/journal-record.ts';
import type { LogEvent } from '../log/log-line.ts';
import type { Session } from './sessions.ts';
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
  readonly seen: readonly (Observation | null)[] | undefined;
  /** Whether a file at `to` is replaced. Otherwise it is the reason for a refusal. */
  readonly replaces: boolean;
}

/** The session's next line. */
export interface Answer {
  readonly event: LogEvent;
  /** The files at the paths of the change when that line was read. */
  readonly seen?: readonly (Observation | null)[] | undefined;
}

export type Verdict =
  | 'pending'
  | 'refused'
  /** Most likely refused: the refusal may have answered a request that is not logged. */
  | 'doubtful'
  /** Proved by the session's next request, or by the inode that the file still has. */
  | 'certain'
  /** The disk shows the names, or the log says so and nothing has refused it. */
  | 'likely';

export class PendingChange {
  readonly change: ChangeOptions;
  /** The session's next line, once it is in the queue. */
  answer: Answer | undefined;
  readonly #since: number;
  #looks = 0;
  /** A look after the first one has met what should have gone: by then sshd has done a request, or has refused it. */
  #hasStayed = false;

  /** @param now by the monotonic clock, in ms. */
  constructor(change: ChangeOptions, now: number) {
    this.change = change;
    this.#since = now;
  }

  /** When to check the disk next, by the monotonic clock in ms. */
  get nextLook(): number {
    return this.#since + (LOOKS_MS[this.#looks] ?? 0);
  }

  verdict(files: TrackedFiles, lstat: (path: FilePath) => Observation | undefined, now: number): Verdict {
    const { answer } = this;
    if (answer) {
      if (answer.event.kind !== 'status') return 'certain';
      if (this.change.session.isAnswer(answer.event.text)) return 'refused';
      const isDone =
        !this.#hasStayed && !this.#isHindered(files) && this.#shown(files, lstat, answer.seen) !== undefined;
      return isDone ? 'likely' : 'doubtful';
    }
    if (now < this.nextLook) return 'pending';
    this.#looks += 1;
    if (this.#looks > 1 && lstat(this.change.from)) this.#hasStayed = true;
    return this.#shown(files, lstat) ?? (this.#looks < LOOKS_MS.length ? 'pending' : 'likely');
  }

  /** Whether the log says that something at `to` prevents the rename: a folder with files, or a file if the rename is a plain one. */
  #isHindered(files: TrackedFiles): boolean {
    const { to, replaces } = this.change;
    if (to === undefined || (replaces && files.at(to)?.isKnown === true)) return false;
    return files.isAnyKnownAt(to);
  }

  /**
   * Whether the disk shows that the change was done: for certain, if the file that was renamed can be recognized.
   * @param answered the files at `from` and `to` when the answer was read. By default those that are there now.
   */
  #shown(
    files: TrackedFiles,
    lstat: (path: FilePath) => Observation | undefined,
    answered: readonly (Observation | null)[] = [],
  ): 'certain' | 'likely' | undefined {
    const { from, to, seen } = this.change;
    const [left = lstat(from), arrived = to === undefined ? undefined : lstat(to)] = answered;
    if (left) return undefined;
    if (to === undefined) return 'likely';
    if (!arrived) return undefined;
    const isIt = (is: boolean): 'certain' | undefined => (is ? 'certain' : undefined);
    const inode = files.at(from)?.inode;
    // If that is the file which was there before, the line of an open was read when it had taken the name.
    if (inode !== undefined) return isIt(arrived.ino === inode && files.at(to)?.inode !== inode);
    // Compare a file below the folder, because another folder may have the name by now.
    const child = files.knownBelow(from);
    if (child) return isIt(lstat(to + child.path.slice(from.length))?.ino === child.inode);
    // A file at `to` that was not seen at `from` may be the reason for a refusal.
    return seen ? isIt(arrived.ino === seen[0]?.ino) : 'likely';
  }
}
