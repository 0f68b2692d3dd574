/** What the log says of files, in the terms of the ledger. */
import type { Micros } from '../../clock.ts';
import type { FilePath } from '../file-path.ts';

/** The session that did something. */
export interface BySession {
  readonly pid: number;
  /** The client's, or '' when it is not known. */
  readonly address: string;
}

/** How the last of the handles that wrote a file ended. */
export interface Close {
  /** False when the connection died first, or the server refused a write. */
  readonly isComplete: boolean;
  /** Where the file was then; the final name when it was renamed from a temporary one before anybody looked. */
  path: FilePath;
  /** That temporary name. */
  from?: FilePath | undefined;
  at: Micros;
  readonly by: BySession;
  /** When the handle was opened, as far as somebody saw it. */
  readonly openedAt: Micros | undefined;
  /** Bytes written through the handle when it began with an empty file: the file's size, unless some were written twice. */
  readonly bytes: number | undefined;
  /** The size was set since: what is on the disk is no longer what was uploaded. */
  isResized?: boolean;
  /** A request of the session was refused that may have been a write. */
  readonly isDoubted: boolean;
  /** Of the file that was written, when it was seen. */
  readonly inode: number | undefined;
  /** Its line was cut: the file was found by the beginning of its name. */
  readonly isGuessed?: boolean;
  /** Announced already, though nobody had seen the file. */
  readonly isTold?: boolean;
  /** Of several handles the newest one's end counts. */
  readonly order: number;
}

export interface Rename {
  readonly from: FilePath;
  readonly by: BySession;
  readonly at: Micros;
}

export interface Removal {
  /** Absent when no session did it. */
  readonly by: BySession | undefined;
  readonly at: Micros;
}

/** What is kept for the history alone: no row of a file and no webhook follows from it. */
export interface SessionNote {
  readonly event: 'session-opened' | 'session-closed' | 'downloaded' | 'download-dropped';
  readonly directoryId: string;
  readonly at: Micros;
  readonly by: BySession;
  readonly path?: FilePath;
  readonly bytes?: number;
  readonly beganAt?: Micros | undefined;
}
