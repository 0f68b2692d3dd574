/** A handle that a session holds on a file, as the log tells. */
import type { Micros } from '../../clock.ts';
import type { Entry } from './namespace.ts';
import type { FilePath } from '../file-path.ts';

export interface Handle {
  readonly pid: number;
  /** The name as sshd logs it at the close: the one it was opened with. Undefined when it was open before the log was. */
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
  readonly inode: number | undefined;
  /** The server refused a write through it (a full disk): what it leaves is not what the client sent. */
  isRefused: boolean;
  /** The open seems to have failed. */
  isDoubtful: boolean;
}
