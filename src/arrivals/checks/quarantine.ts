/**
 * Rejected files, out of their customers' reach: each is kept under its upload's id in a folder for its directory, on the
 * jails' disk. An operator releases or deletes them; after `BERTH_HISTORY_DAYS` they are removed.
 *
 * Promise: the row is the truth. A file that was just rejected may still be in transit, where it is found, too. A release is committed first: the file is in check again, and marked as released. Putting
 * the file back and announcing it can then be repeated, and are repeated after a crash. A deletion removes the file before
 * its row.
 */
import { linkSync, lstatSync, mkdirSync, renameSync, unlinkSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Kysely, Transaction } from 'kysely';
import { verifyActor } from '../../rules/accounts/actor.ts';
import { inFolderOf, lstatEntry, placeIn } from '../../foundation/base/beneath.ts';
import { DAY } from '../../foundation/base/clock.ts';
import type { DirectoryRow, QuarantineTable, Tables } from '../../foundation/db/schema.ts';
import { liveDirectory, type Target } from '../../rules/directories/target.ts';
import { BerthError, errorCode } from '../../foundation/base/errors.ts';
import { insertAudit } from '../../rules/history/audit.ts';
import { isThere } from '../../foundation/base/files.ts';
import { displayName, parentOf, pathOf } from '../uploads/file-path.ts';
import { type FileRow, Files } from '../uploads/record/files.ts';
import type { FilesContext } from '../files/context.ts';
import { lastOf, type Transit } from '../files/transit.ts';

/** Rows that are removed in one statement. */
const BATCH = 100;

export interface QuarantineParts {
  /** The path of an upload's file in the quarantine. */
  placeOf(directoryId: string, uploadId: string): string;
  /** Announces a released file. @throws {BerthError} like `Decisions.pass`. */
  announce(directory: DirectoryRow, fileId: string): Promise<void>;
  /** Called when a released file of that directory still has to be announced. */
  released(directoryId: string): void;
}

export interface Quarantine {
  /**
   * Puts the file back and announces it, whatever the checker says.
   * @throws {BerthError} `directory_not_found`, `upload_not_found`, `home_elsewhere`, `file_conflict`, `file_in_use`.
   */
  release(target: Target, file: QuarantineTable): Promise<void>;
  /** Puts back a file whose release was cut off. @throws {BerthError} like `release`. */
  putBack(directory: DirectoryRow, file: QuarantineTable): void;
  /** Deletes the file for good. @throws {BerthError} like `release`. */
  remove(target: Target, file: QuarantineTable): Promise<void>;
}

export function createQuarantine(context: FilesContext, parts: QuarantineParts): Quarantine {
  const { database, clock, transact, transit, deferral, filesRoot } = context;
  const { node } = context.config;
  const { placeOf } = parts;

  async function inTransaction(
    target: Target,
    file: QuarantineTable,
    change: (tx: Transaction<Tables>, directory: DirectoryRow, at: number) => Promise<void>,
    action: 'release-file' | 'remove-file',
  ): Promise<void> {
    await transact(async (tx) => {
      await verifyActor(tx, target);
      const directory = await liveDirectory(tx, target);
      const row = await quarantinedOf(tx, directory.id, file.id);
      if (row?.node !== node) throw row ? elsewhere(row) : notFound();
      // A move leaves rejected files behind.
      if (directory.node !== node && action === 'release-file') throw moved(directory);
      const at = clock.now();
      await change(tx, directory, at);
      const name = displayName(file.path);
      const details = { file: { from: name, to: action === 'remove-file' ? null : name } };
      await insertAudit(tx, target, { action, at, directory, details });
      return { value: undefined, destinations: [] };
    });
  }

  /** Where a rejected file is. Until a moment after its rejection was committed, it is in transit. */
  function whereIs(directoryId: string, id: string): string {
    const [place, taken] = [placeOf(directoryId, id), transit.taken(id)];
    return !isThere(place) && isThere(taken) ? taken : place;
  }

  /** Moves a file here that its session may still ask for. @throws {BerthError} `file_in_use`. */
  async function leave({ id }: QuarantineTable): Promise<void> {
    await deferral.endOf(id).catch((error: unknown) => {
      // Its session has changed or removed it: it is not the file that was rejected any more.
      if (!(error instanceof BerthError) || error.code === 'file_in_use') throw error;
    });
  }

  /** @throws {BerthError} `file_conflict` when something else is at the path by now. */
  function refuseTaken(root: string, { path, inode }: QuarantineTable): void {
    try {
      const there = inFolderOf(root, path, lstatEntry);
      if (there && there.ino !== inode) throw conflict(path);
    } catch (error) {
      if (errorCode(error) === 'ENOTDIR') throw aboveTaken(path);
      // Its folder is made again.
      if (errorCode(error) !== 'ENOENT') throw error;
    }
  }

  function putBack(directory: DirectoryRow, file: QuarantineTable): void {
    const { id, path, inode } = file;
    const place = whereIs(directory.id, id);
    const owner = { root: filesRoot(directory.sftp_username), uid: directory.uid };
    refuseTaken(owner.root, file);
    using parent = transit.openOrMake(owner, parentOf(pathOf(path)));
    const target = placeIn(parent, lastOf(pathOf(path)));
    try {
      linkSync(place, target);
    } catch (error) {
      const there = lstatSync(target, { throwIfNoEntry: false });
      // The same file: a crash came before it was removed from the quarantine.
      if (there?.ino !== inode) {
        if (errorCode(error) === 'EEXIST') throw conflict(path);
        throw errorCode(error) === 'ENOENT' ? lost(error) : error;
      }
    }
    if (isThere(place)) unlinkSync(place);
  }

  async function withdraw({ id, directory_id: directory }: QuarantineTable): Promise<void> {
    await transact(async (tx) => {
      const files = new Files(tx, directory);
      const row = await tx.selectFrom('files').selectAll().where('id', '=', id).executeTakeFirst();
      if (row) await files.remove(row);
      await files.flush();
      await tx.updateTable('quarantine').set({ released_at: null }).where('id', '=', id).execute();
      return { value: undefined, destinations: [] };
    });
  }

  return {
    async release(target, file) {
      const { id, path, size_bytes, inode, mtime } = file;
      const directory = await liveDirectory(database.reads, target);
      if (file.node === node) {
        await leave(file);
        await deferral.endAt(directory, pathOf(path));
      }
      // Before anything is committed: the audit has only what was done.
      if (file.node === node) refuseTaken(filesRoot(directory.sftp_username), file);
      const release = async (tx: Transaction<Tables>, _: DirectoryRow, at: number): Promise<void> => {
        const files = new Files(tx, directory.id);
        const other = await files.at(pathOf(path));
        if (other && other.id !== id) throw conflict(path);
        const values = {
          size_bytes,
          inode,
          mtime,
          ctime: null,
          uploaded_at: at,
          source: 'disk',
          session_pid: null,
        } as const;
        await files.put({ id, path, state: 'checking', ...values }, other);
        await files.flush();
        await tx.updateTable('quarantine').set({ released_at: at }).where('id', '=', id).execute();
      };
      await inTransaction(target, file, release, 'release-file');
      try {
        putBack(directory, file);
      } catch (error) {
        await withdraw(file);
        throw error;
      }
      // The obstacle may pass: the rounds announce the file later.
      await parts.announce(directory, id).catch((error) => {
        if (!(error instanceof BerthError)) throw error;
        parts.released(directory.id);
      });
    },
    putBack,
    async remove(target, file) {
      if (file.node === node) await leave(file);
      const remove = async (tx: Transaction<Tables>): Promise<void> => {
        const place = whereIs(target.id, file.id);
        if (isThere(place)) unlinkSync(place);
        await tx.deleteFrom('quarantine').where('id', '=', file.id).execute();
      };
      await inTransaction(target, file, remove, 'remove-file');
    },
  };
}

/** The row of a rejected file. */
export function quarantinedOf(db: Kysely<Tables>, directoryId: string, id: string) {
  return db
    .selectFrom('quarantine')
    .selectAll()
    .where('id', '=', id)
    .where('directory_id', '=', directoryId)
    .executeTakeFirst();
}

/** The first of those files that an operator has released from the quarantine. */
export async function releasedAmong(db: Kysely<Tables>, directoryId: string, files: readonly FileRow[]) {
  const found = await db
    .selectFrom('quarantine')
    .select('id')
    .where('directory_id', '=', directoryId)
    .where('released_at', 'is not', null)
    .execute();
  return files.find((file) => found.some(({ id }) => id === file.id));
}

/** Moves a file in transit to the quarantine if its rejection was committed. Returns false if none was. */
export async function keepRejected(
  reads: Kysely<Tables>,
  id: string,
  file: string,
  placeOf: QuarantineParts['placeOf'],
): Promise<boolean> {
  const row = await reads.selectFrom('quarantine').select('directory_id').where('id', '=', id).executeTakeFirst();
  if (!row) return false;
  moveTo(placeOf(row.directory_id, id), file);
  return true;
}

/** Moves a file from the transit to its place in the quarantine, unless an operator has released or deleted it meanwhile. */
export function moveTo(place: string, file: string): void {
  mkdirSync(dirname(place), { recursive: true, mode: 0o700 });
  if (isThere(file)) renameSync(file, place);
}

/** Moves the rejected files to the quarantine that could not be moved when they were rejected. */
export async function keepAllRejected(
  reads: Kysely<Tables>,
  transit: Transit,
  placeOf: QuarantineParts['placeOf'],
): Promise<void> {
  for (const id of transit.leaving()) await keepRejected(reads, id, transit.taken(id), placeOf);
}

/**
 * Removes rejected files that are too old from the quarantine's folder, and the folders of directories that are gone. Withdraws a release whose file is not
 * in the directory's rows, so that the operator sees it in the quarantine again.
 */
export async function tidyQuarantine(
  { config, database, clockLead, transit }: FilesContext,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  if (!isThere(folder)) return;
  const { node, historyDays } = config;
  const { db, reads } = database;
  await db
    .updateTable('quarantine')
    .set({ released_at: null })
    .where('node', '=', node)
    .where('released_at', 'is not', null)
    .where(({ not, exists, selectFrom }) =>
      not(exists(selectFrom('files').select('files.id').whereRef('files.id', '=', 'quarantine.id'))),
    )
    .execute();
  const before = (await clockLead()).now - historyDays * DAY;
  for (let count = BATCH; count === BATCH && !signal.aborted;) {
    const old = await reads
      .selectFrom('quarantine')
      .select(['id', 'directory_id'])
      .where('node', '=', node)
      .where('rejected_at', '<', before)
      .where('released_at', 'is', null)
      .orderBy('rejected_at')
      .limit(BATCH)
      .execute();
    for (const { id, directory_id } of old)
      for (const file of [join(folder, directory_id, id), transit.taken(id)]) await rm(file, { force: true });
    const ids = old.map(({ id }) => id);
    if (ids.length > 0) await db.deleteFrom('quarantine').where('id', 'in', ids).execute();
    count = old.length;
  }
  for (const id of await readdir(folder)) {
    const known = await reads.selectFrom('directories').select('id').where('id', '=', id).executeTakeFirst();
    if (!known && !signal.aborted) await rm(join(folder, id), { recursive: true, force: true });
  }
}

function notFound(): BerthError {
  return new BerthError(
    'upload_not_found',
    'There is no such file in the quarantine; it may have been released or deleted',
  );
}

function lost(cause: unknown): BerthError {
  return new BerthError('upload_not_found', 'The file is no longer in the quarantine: delete its entry', { cause });
}

function elsewhere({ node }: QuarantineTable): BerthError {
  return new BerthError('home_elsewhere', `This file is on ${node}: do this there`);
}

function moved({ node }: DirectoryRow): BerthError {
  return new BerthError('home_elsewhere', `The directory is on ${node} now: this file can only be deleted here`);
}

function conflict(path: Buffer): BerthError {
  return new BerthError(
    'file_conflict',
    `Another file has the name ${displayName(path)} by now: rename or delete that one first`,
  );
}

function aboveTaken(path: Buffer): BerthError {
  return new BerthError(
    'file_conflict',
    `A folder of ${displayName(path)} is a file by now: rename or delete that one first`,
  );
}
