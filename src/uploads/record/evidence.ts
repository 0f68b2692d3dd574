/** What the log says of files: the handles that write them, how those end, renames and removals. */
import type { Micros } from '../../clock.ts';
import type { FilePath } from '../file-path.ts';
import type { Entry } from './namespace.ts';

/** The session that did something. */
export interface BySession {
  readonly pid: number;
  /** The client's, or '' when it is not known. */
  readonly address: string;
}

/** A handle that a session has opened. */
export interface Handle {
  readonly pid: number;
  /** The name it was opened with, which sshd logs again at the close. Undefined when it was open before the log was. */
  readonly name: string | undefined;
  /** Where the file was when it was opened. */
  readonly path: FilePath;
  /** What it writes; undefined when it only reads. */
  readonly entry: Entry | undefined;
  /** Whether opening it may have made the file. */
  readonly creates: boolean;
  /** Whether opening it emptied the file. */
  readonly truncates: boolean;
  /** When it was opened; undefined when that was before the log. */
  readonly openedAt: Micros | undefined;
  /** Later handles have higher numbers. */
  readonly order: number;
  /** Of its file, when that was there to be seen. */
  inode: number | undefined;
  /** The server refused a write through it (a full disk): it does not leave what the client sent. */
  isRefused: boolean;
  /** The open seems to have failed. */
  isDoubtful: boolean;
}

/** How the last of the handles that wrote a file ended. */
export interface Close {
  /** False when the connection died first, or the server refused a write. */
  readonly isComplete: boolean;
  /** Where the file was then; its final name if it was renamed from a temporary one before a look. */
  path: FilePath;
  /** That temporary name. */
  from?: FilePath | undefined;
  at: Micros;
  readonly by: BySession;
  /** When the handle was opened, if that is known. */
  readonly openedAt: Micros | undefined;
  /** Bytes written through a handle that began with an empty file: the file's size, unless some were written twice. */
  readonly bytes: number | undefined;
  /** For when the disk cannot tell any more: the size that its path had when it was closed, or probably had. */
  readonly sizeSeen?: number | undefined;
  /** A client has set the size since: the disk no longer shows what was uploaded. */
  isResized?: boolean;
  /** Nothing was written through it, nor was the file emptied: an upload only if that is how it was made. */
  readonly isUnwritten?: boolean | undefined;
  /** A request of the session was refused that may have been a write. */
  readonly isDoubted: boolean;
  /** The machine went down since, and not in order: only the disk can show that the file is whole. */
  readonly isUnproven?: boolean | undefined;
  /** Of the file that was written, when it was seen. */
  readonly inode: number | undefined;
  /** Announced already, before the file was seen. */
  readonly isTold?: boolean;
  /** Of several handles the newest one's end counts. */
  readonly order: number;
}

/** What a handle that has gone did to its file. */
export type HandleEnd = Pick<
  Close,
  'isComplete' | 'at' | 'by' | 'bytes' | 'sizeSeen' | 'isUnwritten' | 'isDoubted' | 'isUnproven'
>;

export interface Rename {
  readonly from: FilePath;
  readonly by: BySession;
  readonly at: Micros;
}

/** A file's removal, or the end of a session. */
export interface Removal {
  /** Absent when no session did it. */
  readonly by: BySession | undefined;
  readonly at: Micros;
}
