/** What the log says happened in one directory, in order: the language between the story, the agenda and `apply`. */
import type { Micros } from '../../clock.ts';
import type { FilePath } from '../file-path.ts';

/** The session that did something. */
export interface BySession {
  readonly pid: number;
  /** The client's address, or '' when it is not known. */
  readonly address: string;
}

/** How the last handle that wrote a file ended. */
export interface Ending {
  /** False when the connection died first, or the server refused a write. */
  readonly isComplete: boolean;
  readonly at: Micros;
  /** The session that closed last. */
  readonly by: BySession;
  /** When the handle was opened, if that was heard. */
  readonly openedAt: Micros | undefined;
  /** Bytes written through a handle that began with an empty file: the file's size, unless some were written twice. */
  readonly bytes: number | undefined;
  /** Bytes written through the handle. */
  readonly written: number;
  /** Nothing was written, nor was the file emptied: an upload only if the open made the file. */
  readonly isUnwritten: boolean;
  /** A request of the session was refused that may have been a write. */
  readonly isDoubted: boolean;
  /** The machine went down since, and not in order: nothing shows that the file is whole, unless it is recorded. */
  readonly isUnproven: boolean;
  /** The file's inode, when it was seen. */
  readonly inode: number | undefined;
  /** The newest handle of a file decides: higher numbers are later opens. */
  readonly order: number;
}

/** A file that the story follows while a session writes it, or until an operation about it has been applied. */
export interface TrackedFile {
  /** Where it is, as far as the log has been read; undefined once it has lost its name. */
  readonly path: FilePath | undefined;
  /** Whether a handle may still write it. */
  hasOpenWriters(): boolean;
  /** Whether the kernel knows one of those handles to hold that inode, or cannot be asked any more. */
  isHeld(inode: number): boolean;
  /** Puts that have not been applied, oldest first. */
  readonly puts: readonly Put[];
  /** A client set its times or size within the last seconds, so they say nothing about who wrote it. */
  readonly wasSet: boolean;
}

/** The last writer of a file has gone. */
export interface Put {
  readonly kind: 'put';
  /** Where the file was then. */
  readonly path: FilePath;
  readonly file: TrackedFile;
  readonly end: Ending;
  /** A client has set the size since: the disk no longer shows what was uploaded. */
  isResized: boolean;
}

/** A file or folder was renamed. */
export interface Move {
  readonly kind: 'move';
  readonly from: FilePath;
  readonly to: FilePath;
  readonly by: BySession;
  readonly at: Micros;
  /** Whether the session's next request proves that it was not refused. */
  readonly isCertain: boolean;
  /** The inode of the file that was moved, when the story knows it. */
  readonly inode: number | undefined;
}

/** A file was removed. */
export interface Remove {
  readonly kind: 'remove';
  readonly path: FilePath;
  /** Undefined when berth removed it. */
  readonly by: BySession | undefined;
  readonly at: Micros;
}

/** A session is over: what it left under temporary names is announced. */
export interface End {
  readonly kind: 'end';
  readonly by: BySession;
  readonly at: Micros;
}

export type Operation = Put | Move | Remove | End;

/** Something about a file for the history, or an upload for a webhook too. */
export interface Announcement {
  readonly path: FilePath;
  readonly from?: FilePath | undefined;
  readonly at: Micros;
  readonly bytes: number;
  readonly by?: BySession | undefined;
  readonly openedAt?: Micros | undefined;
  /** Of an upload by link: the client's address, or '' when it is not known. */
  readonly byLink?: { readonly address: string } | undefined;
}
