/**
 * What a file was when its upload was complete, although lstat may tell of another by now.
 *
 * A client may overwrite a file right after it closed it, and then lstat tells of the second upload; or it wrote some
 * bytes twice, or left gaps, and then lstat alone tells the size. sshd logs an open before it tries it: once the log has
 * been read up to the look, it is known which of the two it was.
 *
 * Not known is the size of an upload that did not begin with an empty file (resumed, appended to), or that was written with
 * gaps or twice, and is changed again before berth looks: it is announced with the size that lstat gives, or with the bytes that
 * went through its handle. Nor can a look tell two uploads of the same size apart, but each is announced; and an
 * upload that was renamed from a temporary name and replaced under its final name between two looks goes without a webhook
 * of its own: the one of what replaced it follows.
 */
import { type Batch, isSame } from './batch.ts';
import type { Closed } from './change.ts';
import type { FileStat } from './files.ts';

/** The mtime of a row whose file is another by now: no file on the disk is the same as this. */
export const UNSEEN = -1;

/** `stat` is what lstat says now. Undefined when the log has to be read up to now first: then the change comes again. */
export function uploadedStat(batch: Batch, upload: Closed, stat: FileStat): FileStat | undefined {
  const { size, overwritten, seen } = upload;
  if (size === undefined || size === stat.size_bytes) return stat;
  if (overwritten) return { ...stat, size_bytes: size, mtime: UNSEEN };
  if (seen) return seen;
  batch.uncertain = () => (upload.seen = stat);
  return undefined;
}

/** For the row. What has not been announced must not look like it: should its close be lost in a crash, a scan finds it. */
export function unlessAnother(uploaded: FileStat, stat: FileStat): FileStat {
  return isSame(uploaded, stat) ? stat : { ...stat, mtime: UNSEEN };
}
