/**
 * What happened to a directory's files, in the terms of the rules. The transfer log and looks at the disk both come
 * down to these; `record.ts` alone turns them into rows and deliveries. Repeating one changes nothing.
 */
import type { Micros } from '../clock.ts';
import type { FileStat } from './files.ts';

/** The session that did it. */
export interface BySession {
  readonly pid: number;
  /** The client's, or '' when it is not known. */
  readonly address: string;
}

interface About {
  readonly directoryId: string;
  /** Below `files/`. */
  readonly path: Buffer;
  /** When it happened. */
  readonly at: Micros;
  /** Absent when no session did it. */
  readonly by?: BySession | undefined;
  /** When the handle was opened, as far as somebody saw it. */
  readonly beganAt?: Micros | undefined;
}

/** The last handle that wrote the file was closed: it is complete. */
export interface Closed extends About {
  readonly kind: 'closed';
  readonly pid: number;
  /** Bytes written through the handle when it began with an empty file: its size, unless some were written twice. */
  readonly size: number | undefined;
  /** The log did not tell the name whole: it may be another file's close, and this one's be recorded already. */
  readonly isGuess?: boolean;
  /** Set when the log says, before this is recorded, that the file was opened for writing anew or replaced: lstat tells of that. */
  overwritten?: boolean;
  /** What lstat said when it did not agree with `size`; set once the log has been read up to that look. */
  seen?: FileStat;
}

/** The last handle that wrote the file went without a close, or a write through it was refused. */
export interface CutOff extends About {
  readonly kind: 'cut-off';
}

export interface Renamed extends About {
  readonly kind: 'renamed';
  readonly from: Buffer;
  /** A folder whose rows are on the move: some have been moved already. */
  readonly underway?: boolean;
}

export interface Removed extends About {
  readonly kind: 'removed';
}

/** Size or times were set without an upload. */
export interface Touched extends About {
  readonly kind: 'touched';
}

/** A file that differs from what is recorded and has rested, with no handle on it. */
export interface Found extends About {
  readonly kind: 'found';
  /** A live session of the directory, which may still rename a temporary name. */
  readonly pid: number | undefined;
}

/** A session is over: what it left under temporary names stays as it is. */
export interface SessionEnded {
  readonly kind: 'session-ended';
  readonly directoryId: string;
  readonly pid: number;
  readonly at: Micros;
  readonly by?: BySession | undefined;
}

/** What is kept for the history alone: no row of a file and no webhook follows from it, so it may wait for others. */
export interface SessionNote {
  readonly event: 'session-opened' | 'session-closed' | 'downloaded' | 'download-dropped';
  readonly directoryId: string;
  readonly at: Micros;
  readonly by: BySession;
  readonly path?: Buffer;
  readonly bytes?: number;
  readonly beganAt?: Micros | undefined;
}

export type Change = Closed | CutOff | Renamed | Removed | Touched | Found | SessionEnded;
