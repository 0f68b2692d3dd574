/**
 * Moves the file of a row out of its directory, to where nobody can open it any more. Only then is it certain which file it is, and
 * that nobody writes to it. If it must not be removed, it gets its name back. After a crash in between, the next start resolves what is
 * left (`transit.ts`).
 */
import { lstatSync, renameSync } from 'node:fs';
import { unlink } from 'node:fs/promises';
import { inFolderOf, isAbsent, lstatEntry, placeIn } from '../../foundation/base/beneath.ts';
import type { DirectoryRow } from '../../foundation/db/schema.ts';
import { mayBeCommitted, onceAvailable } from '../../foundation/db/away.ts';
import { syncAll } from '../../foundation/base/files.ts';
import { isLive, notFound } from '../../rules/directories/target.ts';
import { parentOf, pathOf } from '../uploads/file-path.ts';
import { fileStat, isAsRecorded, isSame } from '../uploads/record/file-stat.ts';
import type { RecordedUpload } from '../uploads/upload-list.ts';
import { changed, gone, inUse } from './content.ts';
import type { FilesGround } from './context.ts';

/** A directory that has a file. */
type Holder = Pick<DirectoryRow, 'id' | 'account_id' | 'uid' | 'sftp_username'>;

/**
 * Moves the file of a row out of its directory, then runs `work` to remove the row. If `work` throws, the file gets its name
 * back.
 * @returns where the file is now.
 * @throws {BerthError} `upload_not_found`, `file_changed`, `file_in_use`, and the errors of `work`; `directory_not_found` when
 * the directory was deleted meanwhile.
 */
export async function takingOut(
  context: FilesGround,
  directory: Holder,
  upload: RecordedUpload,
  work: () => Promise<void>,
): Promise<string> {
  const { transit, filesRoot } = context;
  const taken = transit.taken(upload.id);
  try {
    takeOut(filesRoot(directory.sftp_username), upload, taken, (inode) => context.isHeldNow(directory.id, inode));
  } catch (error) {
    if (!isAbsent(error)) throw error;
    // Or it is somewhere else: a rename may not be recorded yet.
    context.missing(directory, pathOf(upload.path));
    throw gone(error);
  }
  try {
    await verifyTaken(context, directory, upload, taken);
    await work();
  } catch (error) {
    // If it was committed, the file would come back as a new upload.
    if (mayBeCommitted(error) && (await hasNoRow(context, directory, upload, taken))) return taken;
    await putBack(context, directory, upload, taken);
    // Somebody has moved its folder.
    throw isAbsent(error) ? changed() : error;
  }
  return taken;
}

/** Whether the file has no row. False if the database does not say so in time. */
async function hasNoRow(
  { database }: FilesGround,
  directory: Holder,
  { id }: RecordedUpload,
  taken: string,
): Promise<boolean> {
  const { ino } = lstatSync(taken);
  const rows = database.reads
    .selectFrom('files')
    .select('id')
    .where('directory_id', '=', directory.id)
    .where((eb) => eb.or([eb('id', '=', id), eb('inode', '=', ino)]));
  const row = await onceAvailable(() => rows.executeTakeFirst()).catch(() => 'unknown');
  return row === undefined;
}

async function putBack(
  { database, transit, filesRoot }: FilesGround,
  directory: Holder,
  upload: RecordedUpload,
  taken: string,
): Promise<void> {
  const { id, account_id, uid } = directory;
  try {
    transit.putBack({ root: filesRoot(directory.sftp_username), uid }, pathOf(upload.path), taken);
  } catch (error) {
    if (!isAbsent(error)) throw error;
    // A folder that is missing although its directory is live may return. The next start tries again.
    if (await isLive(database.reads, { id, accountId: account_id })) throw changed();
    await unlink(taken);
    notFound(error);
  }
}

/** @throws the system's error when nothing is there. */
function takeOut(root: string, upload: RecordedUpload, to: string, isHeld: (inode: number) => boolean): void {
  inFolderOf(root, upload.path, (folder, name) => {
    const stats = lstatEntry(folder, name);
    // Only the ctime shows other bytes of the same size whose mtime a client has set back. The rename changes it.
    if (stats && (!stats.isFile() || !isAsRecorded(upload, fileStat(stats)))) throw changed();
    if (stats && isHeld(stats.ino)) throw inUse();
    renameSync(placeIn(folder, name), to);
  });
}

/** Verifies the file that was moved out: it may be another one, or have been opened for writing just before. */
async function verifyTaken(
  { caughtUp, isHeldNow, syncer, filesRoot, transit }: FilesGround,
  directory: Holder,
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
