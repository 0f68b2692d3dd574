/**
 * Puts a file into a directory for its customer to fetch. The file is written and synced out of the customer's reach, then
 * renamed into place in one step. It is not an upload: it is neither announced nor listed as one. A file that somebody
 * uploads with a link (`links/`) takes the same path, and is an upload.
 *
 * A row of `placements`, committed before the rename, says which of the two the file is, because the recorder, a scan, or
 * the next start may be the first to find it. Once a client writes to the file, it is an upload.
 */
import { linkSync, lstatSync, renameSync, unlinkSync } from 'node:fs';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';
import type { Transaction } from 'kysely';
import { isAbsent, lstatBeneath, placeIn } from '../../foundation/base/beneath.ts';
import { type Micros, SECOND } from '../../foundation/base/clock.ts';
import { mayBeCommitted, onceAvailable } from '../../foundation/db/away.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { BerthError, errorCode } from '../../foundation/base/errors.ts';
import { randomText } from '../../foundation/base/hashes.ts';
import { insertAudit } from '../../rules/history/audit.ts';
import { fileIfAny } from './file-rows.ts';
import { currentTag, type Precondition, requireAllowed } from './content.ts';
import type { FileSyncer } from '../uploads/disk/file-syncer.ts';
import { baseName, bytesOf, displayName, type FilePath, parentOf } from '../uploads/file-path.ts';
import { type FileStat, fileStat } from '../uploads/record/file-stat.ts';
import { liveDirectory, lockedDirectory, notFound, type Target } from '../../rules/directories/target.ts';
import { FILE_MODE, lastOf, type Owner, type Transit } from './transit.ts';
import type { FilesContext } from './context.ts';

/** A placement that is older than this belongs to a file that never arrived. */
const PLACEMENT_TIMEOUT = 3600 * SECOND;
/** How often to poll whether the file has been recorded, and for how long. */
const POLL_MS = 10;
const TIMEOUT_MS = 10_000;
/** How often to try the rename: somebody may remove a folder above between two steps. */
const TRIES = 3;

/** An upload with a link. */
export interface ByLink {
  /** The client's address. */
  readonly address: string;
  /** The file gets a number in its name if its name is taken, so that nothing is replaced and nobody learns which names exist. */
  readonly isNumbered?: boolean;
  /**
   * Uses the link, in the transaction before the rename.
   * @returns the id of a link that this used up.
   * @throws {BerthError} when the link does not work any more.
   */
  take(tx: Transaction<Tables>): Promise<string | undefined>;
}

export interface Placed {
  readonly size_bytes: number;
  /** False when it replaced a file. */
  readonly isNew: boolean;
  /** The id of the upload that it replaced. */
  readonly replaced: string | undefined;
  /** The file's `Content.tag`; undefined when a client has already moved it away. */
  readonly tag: string | undefined;
}

/** Throws {BerthError} `directory_not_found`, `file_conflict`, `precondition_failed`, `storage_full`, and the errors of `body`. */
export type PlaceFile = (
  target: Target,
  path: FilePath,
  body: AsyncIterable<Buffer>,
  condition?: Precondition,
  byLink?: ByLink,
) => Promise<Placed>;

export function filePlacing(context: FilesContext): PlaceFile {
  return async (target, path, body, condition, byLink) => {
    const { database, syncer, transit, filesRoot, deferral } = context;
    const directory = await liveDirectory(database.reads, target);
    // To those who ask here, it is gone already.
    await deferral.endAt(directory, path);
    const owner = { root: filesRoot(directory.sftp_username), uid: directory.uid };
    const isNumbered = byLink?.isNumbered === true;
    checkPlace(owner, path, isNumbered);
    if (!isNumbered) requireAllowed(condition, currentTag(owner.root, bytesOf(path)));
    const coming = transit.coming();
    try {
      const stat = await write(coming, owner.root, directory, body, syncer);
      const withdraw = await announce(context, target, path, { stat, byLink });
      // A file that had the name may have been removed while the body came.
      await deferral.endAt(directory, path);
      const before = await fileIfAny(database.reads, directory.id, path);
      const names = isNumbered ? numbered(path) : [path];
      const { arrived, isNew } = await movedTo(transit, owner, names, { coming, condition }).catch(withdraw);
      const tag = currentTag(owner.root, bytesOf(arrived));
      await syncer.sync(owner.root, arrived);
      await recorded(context, directory, arrived, stat);
      const replaced = !isNew && before?.state === 'uploaded' ? before.id : undefined;
      return { size_bytes: stat.size_bytes, isNew, replaced, tag };
    } catch (error) {
      await unlink(coming).catch(() => undefined);
      throw error;
    }
  };
}

/** Refuses early, before the body is read. The rename checks again. */
function checkPlace({ root }: Owner, path: FilePath, isNumbered: boolean): void {
  for (let at = path, isFolder = false; at !== ''; at = parentOf(at), isFolder = true) {
    const stats = lstatBeneath(root, bytesOf(at));
    if (!stats || (isNumbered && !isFolder)) continue;
    if (isFolder ? stats.isDirectory() : stats.isFile()) return;
    throw conflict(isFolder ? at : path, isFolder);
  }
}

function conflict(path: FilePath, isFolder: boolean): BerthError {
  return new BerthError('file_conflict', `${displayName(path)} is ${isFolder ? 'not a folder' : 'a folder or a link'}`);
}

/** Gives the file to the user before the first byte, so that the kernel counts it against the user's quota. */
async function write(
  coming: string,
  root: string,
  directory: DirectoryRow,
  body: AsyncIterable<Buffer>,
  syncer: FileSyncer,
): Promise<FileStat> {
  await using file = await open(coming, 'wx', FILE_MODE);
  await file.chmod(FILE_MODE);
  await file.chown(directory.uid, directory.uid);
  const size = await writeAll(file, body, (directory.quota_bytes ?? Infinity) - directory.storage_bytes);
  await syncer.file(root, file.fd, size);
  return fileStat(await file.stat());
}

/** Checks the limit here too, since the kernel exempts a root with CAP_SYS_RESOURCE from quotas. */
async function writeAll(file: FileHandle, body: AsyncIterable<Buffer>, limit: number): Promise<number> {
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > limit) throw overQuota();
    await file.writeFile(chunk);
  }
  return size;
}

/**
 * Commits which kind of file is about to appear at the path.
 * @returns a function for the case that the rename fails: it withdraws this, and throws the error again.
 */
async function announce(
  { database, clock }: FilesContext,
  target: Target,
  path: FilePath,
  { stat, byLink }: { readonly stat: FileStat; readonly byLink: ByLink | undefined },
) {
  const { inode } = stat;
  const at = clock.now();
  const of = { directory_id: target.id, inode };
  const commit = async (): Promise<void> =>
    database.db.transaction().execute(async (tx) => {
      const link = await byLink?.take(tx);
      const directory = await lockedDirectory(tx, target);
      await tx
        .deleteFrom('placements')
        .where('inserted_at', '<', at - PLACEMENT_TIMEOUT)
        .execute();
      await withdrawalOf(tx, of).execute();
      await requireRoom(tx, directory, stat, at);
      await tx
        .insertInto('placements')
        .values({
          ...of,
          mtime: stat.mtime,
          size_bytes: stat.size_bytes,
          inserted_at: at,
          via: byLink ? 'link' : null,
          address: byLink?.address ?? null,
          link_id: link ?? null,
        })
        .execute();
      const file = { from: null, to: displayName(path) };
      await insertAudit(tx, target, { action: 'put-file', at, directory, details: { file } });
    });
  const withdraw = async (): Promise<void> =>
    database.db.transaction().execute(async (tx) => {
      const own = withdrawalOf(tx, of).where('inserted_at', '=', at).returning('link_id');
      const used = (await own.executeTakeFirst())?.link_id ?? null;
      if (used !== null) await tx.updateTable('links').set({ used_at: null }).where('id', '=', used).execute();
      const requestId = target.actor?.requestId;
      if (requestId === undefined) return;
      await tx.deleteFrom('audit').where('request_id', '=', requestId).where('at', '=', at).execute();
    });
  try {
    await commit();
  } catch (error) {
    if (mayBeCommitted(error)) await onceAvailable(withdraw).catch(() => undefined);
    throw error;
  }
  return async (error: unknown): Promise<never> => {
    await withdraw();
    throw error;
  };
}

/**
 * Files that arrive at the same time must not exceed the quota together. Those that are on their way into place are not in
 * `storage_bytes` yet.
 * @throws {BerthError} `storage_full`.
 */
async function requireRoom(
  tx: Transaction<Tables>,
  { id, quota_bytes, storage_bytes }: DirectoryRow,
  { size_bytes }: FileStat,
  now: Micros,
): Promise<void> {
  if (quota_bytes === null) return;
  const { coming } = await tx
    .selectFrom('placements')
    .select((eb) => eb.fn.coalesce(eb.fn.sum('size_bytes'), eb.lit(0)).as('coming'))
    .where('directory_id', '=', id)
    .where('recorded', '=', 0)
    // An older one belongs to a file that was moved away at once.
    .where('inserted_at', '>', now - TIMEOUT_MS * 1000)
    .executeTakeFirstOrThrow();
  if (storage_bytes + Number(coming) + size_bytes > quota_bytes) throw overQuota();
}

function overQuota(): BerthError {
  return new BerthError('storage_full', 'The quota of the directory does not allow it');
}

function withdrawalOf(tx: Transaction<Tables>, { directory_id, inode }: { directory_id: string; inode: number }) {
  return tx.deleteFrom('placements').where('directory_id', '=', directory_id).where('inode', '=', inode);
}

/** How many numbers are tried before a random one: an outsider must not make this long. */
const MOST_NUMBERED = 20;
const NAME_BYTES = 255;

/** The path, then paths with numbers: `in/scan.pdf`, `in/scan (2).pdf`, …, `in/scan (k3x9q2ab).pdf`. */
function* numbered(path: FilePath): Generator<FilePath> {
  yield path;
  const folder = path.slice(0, path.length - baseName(path).length);
  const [, stem = '', ending = ''] = /^([^]+?)(\.[^.]{1,16})?$/.exec(baseName(path)) ?? [];
  const named = (number: string): FilePath => {
    const end = ` (${number})${ending}`;
    // A name is cut between characters, not within one: bytes like 10xxxxxx continue a character of UTF-8.
    let length = Math.min(stem.length, NAME_BYTES - end.length);
    while (length < stem.length && (stem.charCodeAt(length) & 0xc0) === 0x80) length -= 1;
    return folder + stem.slice(0, length) + end;
  };
  for (let number = 2; number <= MOST_NUMBERED; number += 1) yield named(String(number));
  yield named(randomText('abcdefghijklmnopqrstuvwxyz0123456789', 8));
}

/** Renames the file to the first of the paths that is possible. */
async function movedTo(
  transit: Transit,
  owner: Owner,
  paths: Iterable<FilePath>,
  move: Move,
): Promise<{ readonly arrived: FilePath; readonly isNew: boolean }> {
  let refusal: unknown;
  for (const path of paths)
    try {
      return { arrived: path, isNew: await movedIn(transit, owner, path, move) };
    } catch (error) {
      const isTaken = error instanceof BerthError && TAKEN.has(error.code);
      if (!isTaken) throw error;
      refusal = error;
    }
  throw refusal;
}

const TAKEN: ReadonlySet<string> = new Set(['precondition_failed', 'file_conflict']);

/** Renames the file into place. Returns whether the name was free. */
async function movedIn(transit: Transit, owner: Owner, path: FilePath, move: Move): Promise<boolean> {
  for (let tries = 1; ; tries += 1) {
    try {
      return moveIn(transit, owner, path, move);
    } catch (error) {
      const code = errorCode(error);
      if (code === 'EISDIR') throw conflict(path, false);
      if (code === 'ENOTDIR' || code === 'ELOOP') throw conflict(parentOf(path), true);
      if (!isAbsent(error)) throw error;
      if (tries < TRIES) continue;
      return notFound(error);
    }
  }
}

interface Move {
  readonly coming: string;
  readonly condition: Precondition | undefined;
}

function moveIn(transit: Transit, owner: Owner, path: FilePath, { coming, condition }: Move): boolean {
  using folder = transit.openOrMake(owner, parentOf(path));
  const place = placeIn(folder, lastOf(path));
  const before = lstatSync(place, { throwIfNoEntry: false });
  if (before && !before.isFile()) throw conflict(path, false);
  requireAllowed(condition, currentTag(owner.root, bytesOf(path)));
  if (condition?.isNew) putNew(coming, place);
  else renameSync(coming, place);
  return !before;
}

/** Uses a link instead of a rename, which would replace a file that appears at this moment. */
function putNew(coming: string, place: Buffer): void {
  try {
    linkSync(coming, place);
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
    throw new BerthError('precondition_failed', 'There is another file by now', { cause: error });
  }
  unlinkSync(coming);
}

/** Waits until the file is recorded, but not longer than it stays at its path, and not if the database takes too long. */
async function recorded(
  { database, touch, filesRoot }: FilesContext,
  directory: DirectoryRow,
  path: FilePath,
  { inode }: FileStat,
): Promise<void> {
  const root = filesRoot(directory.sftp_username);
  const end = performance.now() + TIMEOUT_MS;
  while (performance.now() < end && lstatBeneath(root, bytesOf(path))?.ino === inode) {
    touch(directory, path, 0);
    await setTimeout(POLL_MS);
    const waiting = await database.reads
      .selectFrom('placements')
      .select('inode')
      .where('directory_id', '=', directory.id)
      .where('inode', '=', inode)
      .where('recorded', '=', 0)
      .executeTakeFirst();
    if (!waiting) return;
  }
}
