/** What the recorder asks of the machine, and what it is given. */
import type { Clock, Micros } from '../../clock.ts';
import type { Log } from '../../log.ts';
import type { Transact } from '../../webhooks/dispatcher.ts';
import type { FilePath, IsTemporary } from '../file-path.ts';
import type { Jail } from '../jails.ts';
import type { Doubts } from '../record/doubts.ts';
import type { FileStat } from '../record/file-stat.ts';
import type { HistoryRow } from '../record/history.ts';
import type { Found } from './directory.ts';

export interface World {
  lstat(jail: Jail, path: FilePath): Found | undefined;
  /** Whether that process has that file open for writing, by the kernel's word, or died and cannot be asked. */
  isHeldBy(pid: number, inode: number): boolean;
  /** Whether one of those processes has. */
  isHeldByAny(pids: readonly number[], inode: number): Promise<boolean>;
  /** Puts a file and its name on the disk. Resolves with what is there; undefined for nothing. Rejects when the disk fails (`Durable`). */
  sync(jail: Jail, path: FilePath): Promise<FileStat | undefined>;
  /** Resolves when all has been handed over that sshd had logged of the directory before the call. */
  heard(jail: Jail): Promise<void>;
  /** False while the disk of the jails is not mounted: then nothing counts as removed. */
  isDiskThere(): boolean;
  /** A monotonic clock, in ms. */
  monotonic(): number;
}

export interface RecorderOptions {
  readonly world: World;
  readonly clock: Clock;
  readonly log: Log;
  /** Whose directories these are. */
  readonly node: string;
  readonly isTemporary: IsTemporary;
  /** Whether uploads are checked before they are announced. */
  readonly isChecked?: boolean | undefined;
  readonly transact: Transact;
  /** What was closed before may not have reached the disk: the machine went down since. */
  readonly provenFrom?: Micros | undefined;
  /** Files that nobody can vouch for. */
  readonly doubts: Pick<Doubts, 'has'>;
  /** Called after each commit with what it has put into the history. */
  recorded(rows: readonly HistoryRow[]): void;
  /** The directory has to be compared with the disk. */
  compare(directoryId: string): void;
  /** There is something to do before the next turn that was planned. */
  wake(): void;
}
