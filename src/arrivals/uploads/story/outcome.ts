/** What an operation has come to, and what puts, moves and ends have in common. */
import type { FilePath } from '../file-path.ts';
import type { FileRow } from '../record/files.ts';
import { type FileStat, isSame } from '../record/file-stat.ts';
import type { Remove, TrackedFile } from './operations.ts';

/** How many rows below a folder, or of a session, one operation changes in one transaction. */
export const STEP = 100;

/** How soon to look at a path where log and disk disagree, in ms. */
export const SOON_MS = 5;

/** The result of an operation. */
export type Outcome =
  | 'done'
  /** There is more to do, after the row at that path. */
  | { readonly again: FilePath }
  /** First the log has to be read up to the moment when the file was as in `seen`. */
  | { readonly wait: 'log'; readonly seen: FileStat | undefined }
  /** First the kernel has to say whether the opens of the file's doubted handles were refused. */
  | { readonly wait: 'refusal' }
  /** The file at that path has to be on the disk. */
  | { readonly wait: 'sync'; readonly path: FilePath };

/** The ctime of a row's file that is announced now: its rename has changed that. So has what has written it again since. */
export function asFound(row: FileRow, stat: FileStat | undefined, file: TrackedFile | undefined) {
  const isRewritten = file !== undefined && (file.hasOpenWriters || file.puts.length > 0);
  return stat && isSame(row, stat) && !isRewritten ? { ctime: stat.ctime } : undefined;
}

/** The session of an operation, and its time. */
export function by({ by: session, at }: Pick<Remove, 'by' | 'at'>) {
  return { by: session, at };
}
