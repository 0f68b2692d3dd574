/** The recorder's interface to the machine, and its options. */
import type { Clock, Micros } from '../../../foundation/base/clock.ts';
import type { Log } from '../../../foundation/base/log.ts';
import type { Transact } from '../../../foundation/db/database.ts';
import type { FilePath, IsTemporary } from '../file-path.ts';
import type { Jail } from '../jails.ts';
import type { HeldPath } from '../processes.ts';
import type { Doubts } from '../record/doubts.ts';
import type { FileStat } from '../record/file-stat.ts';
import type { HistoryRow } from '../record/transfer-history.ts';
import type { Found } from './directory.ts';

export interface World {
  lstat(jail: Jail, path: FilePath): Found | undefined;
  /** The files in the jail that the process has open for writing now, one for each descriptor; undefined if that cannot be asked. */
  heldBy(jail: Jail, pid: number): readonly HeldPath[] | undefined;
  /**
   * Whether the kernel reports that the process has the file open for writing, or the process died and cannot be asked.
   */
  isHeldBy(pid: number, inode: number): boolean;
  /** Whether the process has ended. */
  isGone(pid: number): boolean;
  /**
   * How often the process has the file open for writing: 0 once it has died. Undefined when it was asked shortly before
   * `since` (by the monotonic clock in ms), and cannot be asked again yet.
   */
  timesHeldBy(pid: number, inode: number, since: number): number | undefined;
  /** Whether the kernel reports that one of the processes has the file open for writing. */
  isHeldByAny(pids: readonly number[], inode: number): Promise<boolean>;
  /**
   * Flushes a file and its name to the disk. Resolves with the file's status, or undefined if there is no file. Rejects
   * when the disk fails (`FileSyncer`).
   */
  sync(jail: Jail, path: FilePath): Promise<FileStat | undefined>;
  /**
   * Resolves with true once every line that sshd logged about the directory before the call has been handed over, and
   * with false when that takes too long.
   */
  journalled(jail: Jail): Promise<boolean>;
  /** False while the jails' disk is not mounted. A missing file does not count as removed then. */
  isDiskThere(): boolean;
  /** A monotonic clock, in ms. */
  monotonic(): number;
  /** Resolves after that many ms. */
  wait(ms: number): Promise<unknown>;
}

export interface RecorderOptions {
  readonly world: World;
  readonly clock: Clock;
  readonly log: Log;
  /** The node of these directories. */
  readonly node: string;
  readonly isTemporary: IsTemporary;
  /** Whether uploads are checked before they are announced. */
  readonly isChecked?: boolean | undefined;
  /** Whether uploads wait until their names have settled. */
  readonly settles?: boolean | undefined;
  readonly isUnannounced?: IsTemporary | undefined;
  readonly transact: Transact;
  /** Files closed before this time may not have reached the disk, because the machine crashed afterwards. */
  readonly provenFrom?: Micros | undefined;
  /** Knows which files may be incomplete after a crash or lost log lines. */
  readonly doubts: Pick<Doubts, 'has'>;
  /** Called after each commit with the rows that it added to the history. */
  recorded(rows: readonly HistoryRow[]): void;
  /** Requests a comparison of the directory with the disk. */
  compare(directoryId: string): void;
  /** Called when there is work to do before the next planned turn. */
  wake(): void;
}
