/**
 * Removes a recorded file and its row, but never a newer file of that name, nor one that is being written.
 *
 * The file is first moved out of the directory, to where nobody can open it any more. Only then is it certain which file it
 * is, and that nobody writes to it. If it must not be removed, it gets its name back. One transaction removes the row and
 * writes the history and the audit; then the file is removed. After a crash in between, the next start resolves what is left
 * (`transit.ts`).
 */
import { lstatSync, renameSync } from 'node:fs';
import { unlink } from 'node:fs/promises';
import type { Kysely, Transaction } from 'kysely';
import { verifyActor } from '../../rules/accounts/actor.ts';
import { inFolderOf, isAbsent, lstatEntry, placeIn } from '../../foundation/base/beneath.ts';
import type { Clock } from '../../foundation/base/clock.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { BerthError, isFull } from '../../foundation/base/errors.ts';
import { type Actor, insertAudit } from '../../rules/history/audit.ts';
import { syncAll } from '../../foundation/base/sync.ts';
import { checkingOf, completeFileOf, fileIfAny, partialOf } from './file-rows.ts';
import { changed, currentTag, gone, inUse, type Precondition, requireAllowed } from './content.ts';
import type { FileSyncer } from '../uploads/disk/file-syncer.ts';
import { displayName, type FilePath, type FilesRoot, parentOf, pathOf } from '../uploads/file-path.ts';
import type { Jail } from '../uploads/jails.ts';
import { Files } from '../uploads/record/files.ts';
import { fileStat, isSame } from '../uploads/record/file-stat.ts';
import { type HistoryRow, historyRow, recordHistory } from '../uploads/record/transfer-history.ts';
import { isLive, liveDirectory, notFound, type Target } from '../../rules/directories/target.ts';
import type { Transit } from './transit.ts';
import { type RecordedUpload, uploadOf } from '../uploads/upload-list.ts';

/** Options for moving files out of directories. */
export interface TakingOptions {
  readonly database: Pick<Database, 'reads'>;
  readonly syncer: FileSyncer;
  readonly filesRoot: FilesRoot;
  readonly transit: Transit;
  /** Resolves once every line that sshd logged about the directory before the call has been interpreted. */
  caughtUp(jail: Jail): Promise<void>;
  /** Asks the kernel whether a session of the directory has that inode open for writing. */
  isHeldNow(directoryId: string, inode: number): boolean;
  /** Called when a recorded file is not at its path. */
  missing(jail: Jail, path: FilePath): void;
}

export interface RemovalOptions extends TakingOptions {
  readonly database: Pick<Database, 'db' | 'reads' | 'reserve'>;
  readonly clock: Clock;
  /** Called with the rows that a commit has added to the history. */
  recorded(rows: readonly HistoryRow[]): void;
}

export type RemoveUpload = (target: Target, uploadId: string) => Promise<void>;
export type RemoveFile = (target: Target, path: FilePath, condition?: Precondition) => Promise<void>;

/** Finds the file of a row. */
type Find = (reads: Kysely<Tables>, directoryId: string, id: string) => Promise<RecordedUpload>;

/**
 * The returned functions throw {BerthError} `directory_not_found`, `upload_not_found` or `file_not_found`, `file_changed`,
 * `file_in_use`; `at` also throws `precondition_failed`.
 */
export function fileRemoval(options: RemovalOptions): {
  readonly upload: RemoveUpload;
  readonly at: RemoveFile;
  readonly partial: RemoveUpload;
  /** A file that is being checked. */
  readonly checking: RemoveUpload;
} {
  /** Removals under way, by file: a second removal of a file waits for the first. */
  const underWay = new Map<string, Promise<void>>();
  async function inTurn(target: Target, id: string, find: Find): Promise<void> {
    for (let other = underWay.get(id); other; other = underWay.get(id)) await other.catch(() => undefined);
    const removing = remove(options, target, id, find);
    underWay.set(id, removing);
    try {
      await removing;
    } finally {
      underWay.delete(id);
    }
  }
  return {
    upload: (target, uploadId) => inTurn(target, uploadId, uploadOf),
    partial: (target, fileId) => inTurn(target, fileId, partialOf),
    checking: (target, fileId) => inTurn(target, fileId, checkingOf),
    async at(target, path, condition) {
      const { reads } = options.database;
      const directory = await liveDirectory(reads, target);
      const file = await fileIfAny(reads, directory.id, path);
      requireAllowed(condition, file && currentTag(options.filesRoot(directory.sftp_username), file.path));
      if (!file) throw new BerthError('file_not_found', 'File not found');
      await inTurn(target, file.id, completeFileOf);
    },
  };
}

async function remove(options: RemovalOptions, target: Target, id: string, find: Find): Promise<void> {
  const { database, recorded } = options;
  const directory = await liveDirectory(database.reads, target);
  const upload = await find(database.reads, directory.id, id);
  const taken = await takingOut(options, directory, upload, async () =>
    recorded(await withReserve(database, (tx) => forget(tx, options, directory, upload, target.actor))),
  );
  await unlink(taken);
}

/**
 * Moves the file of a row out of its directory, then runs `work` to remove the row. If `work` throws, the file gets its name
 * back.
 * @returns where the file is now.
 * @throws {BerthError} `upload_not_found`, `file_changed`, `file_in_use`, and the errors of `work`; `directory_not_found` when
 * the directory was deleted meanwhile.
 */
export async function takingOut(
  options: TakingOptions,
  directory: DirectoryRow,
  upload: RecordedUpload,
  work: () => Promise<void>,
): Promise<string> {
  const { transit, filesRoot } = options;
  const taken = transit.taken(upload.id);
  try {
    takeOut(filesRoot(directory.sftp_username), upload, taken, (inode) => options.isHeldNow(directory.id, inode));
  } catch (error) {
    if (!isAbsent(error)) throw error;
    // Or it is somewhere else: a rename may not be recorded yet.
    options.missing(directory, pathOf(upload.path));
    throw gone(error);
  }
  try {
    await verifyTaken(options, directory, upload, taken);
    await work();
  } catch (error) {
    await putBack(options, directory, upload, taken);
    throw error;
  }
  return taken;
}

async function putBack(
  { database, transit, filesRoot }: TakingOptions,
  directory: DirectoryRow,
  upload: RecordedUpload,
  taken: string,
): Promise<void> {
  const { id, account_id, uid } = directory;
  try {
    transit.putBack({ root: filesRoot(directory.sftp_username), uid }, pathOf(upload.path), taken);
  } catch (error) {
    // A folder that is missing although its directory is live may return. The next start tries again.
    if (!isAbsent(error) || (await isLive(database.reads, { id, accountId: account_id }))) throw error;
    await unlink(taken);
    notFound(error);
  }
}

/** @throws the system's error when nothing is there. */
function takeOut(root: string, upload: RecordedUpload, to: string, isHeld: (inode: number) => boolean): void {
  inFolderOf(root, upload.path, (folder, name) => {
    const stats = lstatEntry(folder, name);
    if (stats && (!stats.isFile() || !isSame(upload, fileStat(stats)))) throw changed();
    if (stats && isHeld(stats.ino)) throw inUse();
    renameSync(placeIn(folder, name), to);
  });
}

/** Verifies the file that was moved out: it may be another one, or have been opened for writing just before. */
async function verifyTaken(
  { caughtUp, isHeldNow, syncer, filesRoot, transit }: TakingOptions,
  directory: DirectoryRow,
  upload: RecordedUpload,
  taken: string,
): Promise<void> {
  // A session that this process does not know yet may have it open.
  await caughtUp(directory);
  const stats = lstatSync(taken);
  if (!isSame(upload, fileStat(stats))) throw changed();
  if (isHeldNow(directory.id, stats.ino)) throw inUse();
  // So that no power cut brings the file back after its row is gone.
  const folder = syncer.folder(filesRoot(directory.sftp_username), parentOf(pathOf(upload.path)));
  await Promise.all([folder, syncAll([transit.folder])]);
}

/** Removing a file makes room: a full disk must not prevent it. */
async function withReserve<T>(
  { db, reserve }: RemovalOptions['database'],
  work: (tx: Transaction<Tables>) => Promise<T>,
): Promise<T> {
  try {
    return await db.transaction().execute(work);
  } catch (error) {
    if (!isFull(error)) throw error;
  }
  reserve.release();
  return db.transaction().execute(work);
}

async function forget(
  tx: Transaction<Tables>,
  { clock }: RemovalOptions,
  directory: DirectoryRow,
  upload: RecordedUpload,
  actor: Actor | undefined,
): Promise<HistoryRow[]> {
  await verifyActor(tx, actor);
  const at = clock.now();
  const files = new Files(tx, directory.id);
  const path = pathOf(upload.path);
  const row = await files.at(path);
  const isRecorded = row?.id === upload.id;
  const history = isRecorded ? [historyRow(directory, { event: 'removed', path, at, bytes: row.size_bytes })] : [];
  if (isRecorded) await files.remove(row);
  await files.flush();
  await recordHistory(tx, history, clock);
  const file = { from: displayName(path), to: null };
  if (actor) await insertAudit(tx, actor, { action: 'remove-file', at, directory, details: { file } });
  return history;
}
