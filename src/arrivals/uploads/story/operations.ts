/**
 * The operations in one directory: a story emits them in the log's order, an agenda queues them, and `apply.ts` writes
 * them to the rows.
 */
import type { Micros } from '../../../foundation/base/clock.ts';
import type { FilePath } from '../file-path.ts';
import type { FileStat } from '../record/file-stat.ts';

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
  /** The client closed the file, and the server had refused a write. */
  readonly isRefused: boolean;
  readonly at: Micros;
  /** The session that closed last. */
  readonly by: BySession;
  /** When the handle was opened, if that was logged. */
  readonly openedAt: Micros | undefined;
  /**
   * Bytes written through a handle that began with an empty file, or the size that was set while it was open, if that is
   * larger; undefined for other handles, and for a cut upload if that size may be another file's. This is the file's size,
   * unless bytes were written twice or the file was cut.
   */
  readonly bytes: number | undefined;
  /** The `bytes` of another handle that wrote the file meanwhile, if these are more. */
  readonly othersBytes?: number | undefined;
  /** The size that was set while the handle was open; undefined if none was, or if it is part of `bytes`. */
  readonly resizedTo?: number | undefined;
  /** Bytes written through the handle; 0 if that is not known. */
  readonly written: number;
  /** The log has cut off how much was written. */
  readonly isOfUnknownSize?: boolean;
  /** The file when the line of the close was read, if the log has cut off its name and the disk could be asked. */
  readonly seen?: FileStat | undefined;
  /** The handle neither wrote to the file nor emptied it. This is an upload only if the open created the file. */
  readonly isUnwritten: boolean;
  /** The process died, and the handle had emptied the file for certain. */
  readonly isEmptied?: boolean;
  /**
   * The handle made an empty file and set its size, but wrote nothing: other handles will. Until the session ends the
   * file is treated as if it had a temporary name.
   */
  readonly isReserved: boolean;
  /** The session had a request refused that may have been a write. */
  readonly isDoubted: boolean;
  /**
   * The machine has crashed since the close, so nothing shows that the file is complete unless it is recorded already.
   */
  readonly isUnproven: boolean;
  /** The file's inode, when it was seen. */
  readonly inode: number | undefined;
  /** When the file with that inode was created, in ms: the next file may get the same inode. Undefined where it is not known. */
  readonly bornMs?: number | undefined;
  /** Later opens have higher numbers. Of a file's handles, the newest decides how the upload ended. */
  readonly order: number;
}

/** A file that the story follows while a session writes it, or until an operation about it has been applied. */
export interface TrackedFile {
  /** The file's path, as far as the log has been read; undefined once the file has lost its name. */
  readonly path: FilePath | undefined;
  /** Whether a handle may still write the file. */
  readonly hasOpenWriters: boolean;
  /** Whether a handle was writing the file at that time, as far as its handles and its puts that have not been applied show. */
  wasOpenAt(at: Micros): boolean;
  /** Whether it has doubted handles, which may write it too. */
  readonly isDoubted: boolean;
  /** Whether a process died that may have opened it since its latest put. */
  readonly mayBeCutOff: boolean;
  /**
   * Whether the kernel reports that a session with such a handle has the inode open for writing, or cannot be asked
   * because its process died.
   */
  isHeld(inode: number): boolean;
  /** Puts that have not been applied, oldest first. */
  readonly puts: readonly Put[];
  /**
   * Complete uploads that were overwritten before their size was known. They are announced when the file is complete
   * again: what it held in between must not be announced.
   */
  readonly owed: Set<Ending>;
  /** A client set the file's times or size within the last few seconds, so they say nothing about who wrote it. */
  readonly wasSet: boolean;
  /** The last time that a client set the size while no handle was open. */
  readonly resized: Resize | undefined;
}

/** A client has set the size of a file. */
export interface Resize {
  /** Undefined if the file was not seen with that size. */
  readonly inode: number | undefined;
  readonly by: BySession;
  readonly at: Micros;
  readonly size: number;
  /** Another size had been set before: the file may have lost something, whatever its size is now. */
  readonly isVaried: boolean;
}

/** The last writer of a file has gone. */
export interface Put {
  readonly kind: 'put';
  /** The file's path at that time. */
  readonly path: FilePath;
  readonly file: TrackedFile;
  readonly end: Ending;
  /** Whether the file may have had another handle then, whose open was most likely refused. */
  isDoubted(): boolean;
  /** It had that handle, so this was no put. The end is part of a later one. */
  isVoid: boolean;
  /** The size in bytes that a client has set since: the disk no longer shows what was uploaded. */
  resizedTo?: number | undefined;
}

/** A file or folder was renamed. */
export interface Move {
  readonly kind: 'move';
  readonly from: FilePath;
  readonly to: FilePath;
  readonly by: BySession;
  readonly at: Micros;
  /** Whether the session's next request, or the inode that the file still has, proves that it was not refused. */
  readonly isCertain: boolean;
  /** The inode of the file that was moved, when the story knows it. */
  readonly inode: number | undefined;
  /** Whether a handle was writing the file. Its close announces the file. */
  readonly isOpen: boolean;
}

/** A file was removed. */
export interface Remove {
  readonly kind: 'remove';
  readonly path: FilePath;
  /** Undefined when retention removed it. */
  readonly by: BySession | undefined;
  readonly at: Micros;
  /** Why berth itself removed it. */
  readonly reason?: string;
}

/** A session is over: the files that it left under temporary names are announced. */
export interface End {
  readonly kind: 'end';
  readonly by: BySession;
  readonly at: Micros;
  /** The log has cut off names in renames of the session. */
  readonly hasLostName: boolean;
}

export type Operation = Put | Move | Remove | End;

/** An event about a file for the history and, if it is an upload, for a webhook. */
export interface Announcement {
  readonly path: FilePath;
  readonly from?: FilePath | undefined;
  readonly at: Micros;
  readonly bytes: number;
  readonly by?: BySession | undefined;
  readonly openedAt?: Micros | undefined;
  /** Set for an upload by link. `address` is the client's, or '' when it is not known. */
  readonly byLink?: { readonly address: string } | undefined;
}
