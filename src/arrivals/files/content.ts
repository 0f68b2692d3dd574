/**
 * Reads the file of an upload where it is, so its customer may do anything to it meanwhile.
 *
 * Promise: a file that was read to its end is what was uploaded. If it is overwritten or truncated meanwhile, reading fails instead.
 * The kernel's change time shows that, which no client can set. Reading goes on when only the file's times, mode or name have changed:
 * its row shows that, once a look has compared both.
 */
import { type BigIntStats, closeSync, fstatSync, read } from 'node:fs';
import { promisify } from 'node:util';
import { isAbsent, openFile } from '../../foundation/base/beneath.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import { pathOf } from '../uploads/file-path.ts';
import type { Jail } from '../uploads/jails.ts';
import { setTimeout as wait } from 'node:timers/promises';
import { type FileStat, fileStat, isSame, isUnchanged } from '../uploads/record/file-stat.ts';
import type { RecordedUpload } from '../uploads/upload-list.ts';
import type { FilesGround } from './context.ts';

/** How much is read at once, and held in memory for each client. */
const CHUNK_BYTES = 256 * 1024;

/** For how long a request waits until a file that was touched has been compared with its row, and how often it looks. */
const SETTLING_MS = 2000;
const POLL_MS = 10;

const readSome = promisify(read);

export interface Content {
  readonly size: number;
  /** The file as it was when it was opened. */
  readonly stat: FileStat;
  /** Changes whenever the bytes may have changed. */
  readonly tag: string;
  /** The bytes from `start` to before `end`. Throws `file_changed` when the file has changed. */
  read(start: number, end: number): AsyncGenerator<Buffer, void, void>;
}

/**
 * The content of a complete file. Its bytes are those that were recorded and, where uploads are checked, that have passed:
 * the ctime says so. A file that was touched since is served once a look has found that its bytes are the same.
 * @param find the file's row. Throws when it is not complete.
 * @param findAgain the row of that id, which may have another path by then. Throws like `find`.
 * @throws {BerthError} like `contentOf`, and the errors of `find`.
 */
export async function completeContent<U extends RecordedUpload>(
  context: FilesGround,
  jail: Jail,
  find: () => Promise<U>,
  findAgain: (id: string) => Promise<U>,
): Promise<{ upload: U; content: Content }> {
  const end = performance.now() + SETTLING_MS;
  for (;;) {
    const upload = await find();
    const content = await contentAs(
      context,
      jail,
      upload,
      followed(context, jail, () => findAgain(upload.id)),
    );
    if (isUnchanged(upload, content.stat)) return { upload, content };
    if (content.size !== upload.size_bytes || performance.now() > end) throw changed();
    context.touch(jail, pathOf(upload.path), 0);
    await wait(POLL_MS);
  }
}

/** Follows what happens to a file while it is read. */
interface Followed {
  /**
   * Opens the file, which was renamed after `path` was read.
   * @throws {BerthError} `upload_not_found`.
   */
  open(root: string): Promise<number>;
  /**
   * The status of an open file that has changed, if only its times, mode or name have.
   * @throws {BerthError} `file_changed`.
   */
  status(fd: number, before: BigIntStats): Promise<BigIntStats>;
}

/** Where the row's ctime decides. Waits until a look has compared the file with its row. */
function followed({ touch }: FilesGround, jail: Jail, find: () => Promise<RecordedUpload>): Followed {
  async function settled<T>(otherwise: BerthError, attempt: (upload: RecordedUpload) => T | undefined): Promise<T> {
    const end = performance.now() + SETTLING_MS;
    for (;;) {
      const upload = await find();
      const found = attempt(upload);
      if (found !== undefined) return found;
      if (performance.now() > end) throw otherwise;
      touch(jail, pathOf(upload.path), 0);
      await wait(POLL_MS);
    }
  }
  return {
    open: (root) => settled(gone(undefined), ({ path }) => openIfAny(root, path)),
    status: (fd, before) =>
      settled(changed(), (upload) => {
        const seen = fstatSync(fd, { bigint: true });
        if (seen.ino !== before.ino || seen.size !== before.size) throw changed();
        // Taken after `seen`: what changes in between is noticed at the next read.
        return isUnchanged(upload, fileStat(fstatSync(fd))) ? seen : undefined;
      }),
  };
}

/**
 * The content of a file, which may have changed since it was recorded as long as its size and mtime are the same.
 * @throws {BerthError} `upload_not_found` when the file has gone, `file_changed`, `file_in_use`.
 */
export async function contentOf(context: FilesGround, jail: Jail, upload: RecordedUpload): Promise<Content> {
  const content = await contentAs(context, jail, upload);
  if (!isSame(upload, content.stat)) throw changed();
  return content;
}

/** The content of the file that is at the path now. @param by without it, any change of the file ends reading. */
async function contentAs(context: FilesGround, jail: Jail, upload: RecordedUpload, by?: Followed): Promise<Content> {
  const root = context.filesRoot(jail.sftp_username);
  const { stat, seen } = statusOf(root, upload.path);
  if (await context.isHeld(jail.id, stat.inode)) throw inUse();
  return {
    size: Number(seen.size),
    stat,
    tag: tagOf(seen),
    read: (start, end) => readUnchanged({ root, path: upload.path, seen, by }, { start, end }),
  };
}

/** The kernel sets the change time, and no client can. */
function tagOf({ ino, ctimeNs }: BigIntStats): string {
  return `${ino.toString(36)}-${ctimeNs.toString(36)}`;
}

/** The tag of the file at that path, whether or not it is recorded; undefined when there is no file. */
export function currentTag(root: string, path: Buffer): string | undefined {
  let fd: number | undefined;
  try {
    fd = openFile(root, path);
    const stats = fstatSync(fd, { bigint: true });
    return stats.isFile() ? tagOf(stats) : undefined;
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

export function inUse(): BerthError {
  return new BerthError('file_in_use', 'The file is being written');
}

export function changed(): BerthError {
  return new BerthError('file_changed', 'The file has changed since this upload');
}

export function gone(cause: unknown): BerthError {
  return new BerthError('upload_not_found', 'The file no longer exists', { cause });
}

/** The status of the file. @throws {BerthError} `upload_not_found`, `file_changed`. */
function statusOf(root: string, path: Buffer): { readonly stat: FileStat; readonly seen: BigIntStats } {
  const fd = open(root, path);
  try {
    const seen = fstatSync(fd, { bigint: true });
    // Taken after `seen`, whose ctime each read compares: a change in between is noticed there.
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw changed();
    return { stat: fileStat(stats), seen };
  } finally {
    closeSync(fd);
  }
}

/** @throws {BerthError} `upload_not_found`. */
function open(root: string, path: Buffer): number {
  const fd = openIfAny(root, path);
  if (fd === undefined) throw gone(undefined);
  return fd;
}

function openIfAny(root: string, path: Buffer): number | undefined {
  try {
    return openFile(root, path);
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

/** The file is opened when the first byte is read: a response that never begins holds nothing open. */
async function* readUnchanged(
  { root, path, seen, by }: { root: string; path: Buffer; seen: BigIntStats; by: Followed | undefined },
  { start, end }: { start: number; end: number },
): AsyncGenerator<Buffer, void, void> {
  const fd = openIfAny(root, path) ?? (await by?.open(root)) ?? open(root, path);
  let known = seen;
  try {
    for (let at = start; at < end;) {
      const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, end - at));
      const { bytesRead } = await readSome(fd, buffer, 0, buffer.length, at);
      if (bytesRead === 0) throw changed();
      // Checked after reading: bytes that were read before a change are good, and the last bytes are sent only if all are.
      if (!isUntouched(fstatSync(fd, { bigint: true }), known)) {
        if (!by) throw changed();
        known = await by.status(fd, known);
      }
      yield buffer.subarray(0, bytesRead);
      at += bytesRead;
    }
  } finally {
    closeSync(fd);
  }
}

function isUntouched(stats: BigIntStats, seen: BigIntStats): boolean {
  return stats.ino === seen.ino && stats.ctimeNs === seen.ctimeNs && stats.size === seen.size;
}

/** A condition on the file that a request would replace or remove. */
export interface Precondition {
  /** There must be no file. If one appears meanwhile, it stays. */
  readonly isNew: boolean;
  /** Whether the file with that tag may be replaced or removed; undefined stands for no file. */
  allows(tag: string | undefined): boolean;
}

/** @throws {BerthError} `precondition_failed`. */
export function requireAllowed(condition: Precondition | undefined, tag: string | undefined): void {
  if (!condition || condition.allows(tag)) return;
  throw new BerthError(
    'precondition_failed',
    tag === undefined ? 'There is no such file' : 'There is another file by now',
  );
}
