/**
 * Removes a recorded file and its row, but never a newer file of that name, nor one that is being written.
 *
 * The file is first moved out of the directory (`taking-out.ts`). One transaction removes the row and writes the history and the audit;
 * then the file is removed. If the session that uploaded the file may still ask for it, that transaction marks the row as removed, and
 * the rest follows later (`deferred-removal.ts`).
 */
import { unlink } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import type { Kysely, Transaction } from 'kysely';
import { verifyActor } from '../../rules/accounts/actor.ts';
import { lstatBeneath } from '../../foundation/base/beneath.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { BerthError, isFull } from '../../foundation/base/errors.ts';
import { insertAudit } from '../../rules/history/audit.ts';
import { checkingOf, completeFileOf, fileIfAny, partialOf } from './file-rows.ts';
import { changed, currentTag, gone, inUse, type Precondition, requireAllowed } from './content.ts';
import { takingOut } from './taking-out.ts';
import { displayName, type FilePath, pathOf } from '../uploads/file-path.ts';
import { Files } from '../uploads/record/files.ts';
import { fileStat, isSame } from '../uploads/record/file-stat.ts';
import { type HistoryRow, historyRow, recordHistory } from '../uploads/record/transfer-history.ts';
import { liveDirectory, type Target } from '../../rules/directories/target.ts';
import { type RecordedUpload, uploadOf } from '../uploads/upload-list.ts';
import type { FilesContext } from './context.ts';

/** How long a request waits until a file that was touched has been compared with its row, and how often it looks. */
const SETTLING_MS = 2000;
const POLL_MS = 10;

export type RemoveUpload = (target: Target, uploadId: string) => Promise<void>;
export type RemoveFile = (target: Target, path: FilePath, condition?: Precondition) => Promise<void>;

/** Finds the file of a row. */
type Find = (reads: Kysely<Tables>, directoryId: string, id: string) => Promise<RecordedUpload>;

/**
 * The returned functions throw {BerthError} `directory_not_found`, `upload_not_found` or `file_not_found`, `file_changed`,
 * `file_in_use`; `at` also throws `precondition_failed`.
 */
export function fileRemoval(context: FilesContext): {
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
    const removing = remove(context, target, id, find);
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
      const { reads } = context.database;
      const directory = await liveDirectory(reads, target);
      const file = await fileIfAny(reads, directory.id, path);
      requireAllowed(condition, file && currentTag(context.filesRoot(directory.sftp_username), file.path));
      if (!file) throw new BerthError('file_not_found', 'File not found');
      await inTurn(target, file.id, completeFileOf);
    },
  };
}

/** A client may have set the file's times or renamed it a moment ago. Then it is tried again once a look has found that. */
async function remove(context: FilesContext, target: Target, id: string, find: Find): Promise<void> {
  const { database, touch } = context;
  const directory = await liveDirectory(database.reads, target);
  const over = performance.now() + SETTLING_MS;
  for (;;) {
    const upload = await find(database.reads, directory.id, id);
    try {
      return await removeNow(context, target, directory, upload);
    } catch (error) {
      if (performance.now() > over || !(await mayBeTouched(context, directory, upload, error))) throw error;
    }
    touch(directory, pathOf(upload.path), 0);
    await wait(POLL_MS);
  }
}

/** Whether the error may come from a row that does not show yet what a client has done to its file, without writing to it. */
async function mayBeTouched(
  { filesRoot, deferral }: FilesContext,
  directory: DirectoryRow,
  upload: RecordedUpload,
  error: unknown,
): Promise<boolean> {
  if (!(error instanceof BerthError)) return false;
  if (error.code === 'upload_not_found') return deferral.mayBeAskedFor(directory, upload);
  if (error.code !== 'file_changed') return false;
  const stats = lstatBeneath(filesRoot(directory.sftp_username), upload.path);
  return stats?.ino === upload.inode && stats.size === upload.size_bytes;
}

async function removeNow(
  context: FilesContext,
  target: Target,
  directory: DirectoryRow,
  upload: RecordedUpload,
): Promise<void> {
  const { database, recorded } = context;
  const taken = await withdrawing(context, directory, upload, async (stays) =>
    recorded(await withReserve(database, (tx) => forget(tx, context, target, { directory, upload, stays }))),
  );
  if (taken !== undefined) await unlink(taken);
}

/**
 * Removes the file of a row. While the session that uploaded it may still ask for it, the file stays where it is, and
 * `deferred-removal.ts` takes it later.
 * @param work commits the removal: removes the row or, if the file stays, keeps it as `removed`.
 * @returns where the file is now; undefined if it stays.
 * @throws {BerthError} like `takingOut`.
 */
export async function withdrawing(
  context: FilesContext,
  directory: DirectoryRow,
  upload: RecordedUpload,
  work: (stays: boolean) => Promise<void>,
): Promise<string | undefined> {
  const { deferral, filesRoot, isHeldNow, missing } = context;
  if (!(await deferral.mayBeAskedFor(directory, upload)))
    return takingOut(context, directory, upload, () => work(false));
  const stats = lstatBeneath(filesRoot(directory.sftp_username), upload.path);
  if (!stats) {
    // Or it is somewhere else: a rename may not be recorded yet.
    missing(directory, pathOf(upload.path));
    throw gone(undefined);
  }
  if (!stats.isFile() || !isSame(upload, fileStat(stats))) throw changed();
  // What a session writes from now on is a new upload.
  if (isHeldNow(directory.id, stats.ino)) throw inUse();
  try {
    await work(true);
  } finally {
    // It may have been committed although PostgreSQL has not said so.
    deferral.added();
  }
  return undefined;
}

/** Removing a file makes room: a full disk must not prevent it. */
async function withReserve<T>({ db, reserve }: Database, work: (tx: Transaction<Tables>) => Promise<T>): Promise<T> {
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
  { clock }: FilesContext,
  target: Target,
  {
    directory,
    upload,
    stays,
  }: { readonly directory: DirectoryRow; readonly upload: RecordedUpload; readonly stays: boolean },
): Promise<HistoryRow[]> {
  await verifyActor(tx, target);
  const at = clock.now();
  const files = new Files(tx, directory.id);
  const path = pathOf(upload.path);
  const row = await files.at(path);
  const isRecorded = row?.id === upload.id;
  const history = isRecorded ? [historyRow(directory, { event: 'removed', path, at, bytes: row.size_bytes })] : [];
  // It was renamed or overwritten meanwhile, and is still there.
  if (stays && !isRecorded) throw changed();
  if (isRecorded) await (stays ? files.update(row, { state: 'removed' }) : files.remove(row));
  await files.flush();
  await recordHistory(tx, history, clock);
  const file = { from: displayName(path), to: null };
  await insertAudit(tx, target, { action: 'remove-file', at, directory, details: { file } });
  return history;
}
