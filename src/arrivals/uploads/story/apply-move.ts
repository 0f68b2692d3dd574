/** Moves the rows of a renamed file or folder. */
import { bytesOf, type FilePath, pathOf } from '../file-path.ts';
import { type FileRow, isKnownByName } from '../record/files.ts';
import { isFileOf, isSame, isUnchanged, STALE_MTIME } from '../record/file-stat.ts';
import type { DirectoryInTransaction } from './directory.ts';
import type { Task } from './jobs.ts';
import type { Move } from './operations.ts';
import { asFound, by, type Outcome, SOON_MS, STEP } from './outcome.ts';

export async function applyMove(operation: Move, task: Task, directory: DirectoryInTransaction): Promise<Outcome> {
  const { from, to } = operation;
  const { files, requests } = directory;
  const arrived = directory.world.lstat(to);
  if (task.after === '') {
    const row = await files.at(from);
    if (row && !arrived?.isDirectory()) return moveFile(operation, row, task, directory);
    // A folder was moved, so the row at `from` is of a file that has gone.
    if (row) requests.look(from, SOON_MS);
    else if (operation.isOpen) await replaceByOpen(operation, directory);
  }
  const below = await files.below(from, task.after, STEP);
  const isAnyFinal = below.some((row) => isReleasedBelow(row, operation, directory));
  if (isAnyFinal && task.synced === undefined) return { wait: 'sync', path: to };
  for (const row of below) await moveBelow(operation, row, directory);
  const last = below.at(-1);
  if (below.length === STEP && last) {
    return { again: pathOf(last.path) };
  }
  const isFolder = below.length > 0 || task.after !== '';
  if (isFolder) await directory.record({ ...by(operation), event: 'renamed', path: to, from, bytes: 0 });
  else {
    requests.look(from, SOON_MS);
    requests.look(to, SOON_MS);
    // Another session may have renamed the folder before that, although its line was logged after this one.
    if (!arrived) requests.compare();
  }
  return 'done';
}

/** A file has got a name while it was being written, and has no row yet: the row of the file that had the name ends. */
async function replaceByOpen({ to, inode, at }: Move, directory: DirectoryInTransaction): Promise<void> {
  const row = await directory.files.at(to);
  if (row && row.inode !== inode && row.uploaded_at <= at) await directory.forget(row);
}

async function moveFile(
  operation: Move,
  row: FileRow,
  task: Task,
  directory: DirectoryInTransaction,
): Promise<Outcome> {
  const { from, to, isCertain, inode, isOpen } = operation;
  const { files, requests, world } = directory;
  const arrived = directory.fileAt(to);
  const left = directory.fileAt(from);
  const isKnown = row.inode >= 0 && row.mtime !== STALE_MTIME;
  const isOther = !isCertain && isKnown && inode !== undefined && inode !== row.inode;
  const isStillThere = left !== undefined && isSame(row, left) && !(arrived && isFileOf(row, arrived));
  // The move is certain, so the file has been moved back since, unless the row is of a later upload.
  const isBack = isCertain && row.uploaded_at <= operation.at;
  // The move was applied before a crash, and the name has had another upload since.
  const isLater = row.source === 'log' && row.uploaded_at > operation.at;
  if (isOther || isLater || (isStillThere && !isBack)) {
    requests.look(from, SOON_MS);
    requests.look(to, SOON_MS);
    return 'done';
  }
  const isFreed = isReleased(row, to, directory);
  // A row whose file is being written again waits for the end of that instead.
  const isFinal = isFreed && !isOpen;
  // The file may have come back by a rename whose line has not been read yet.
  const isUnsynced = arrived?.size_bytes === row.size_bytes && !task.isSynced(arrived);
  if (isFinal && (task.synced === undefined || isUnsynced)) return { wait: 'sync', path: to };
  const replaced = await files.at(to);
  const about = { ...by(operation), path: to, from, bytes: row.size_bytes };
  if (isFinal && (await directory.wasAnnounced(about))) {
    // The move was applied before a crash, and the rows already show what happened to the file since.
    await files.remove(row);
    return 'done';
  }
  // The move was applied before a crash, and a later upload has replaced what was moved.
  const isReplaced = replaced && arrived && isSame(replaced, arrived) && !isFileOf(row, arrived);
  if (!isFinal && isReplaced && replaced.uploaded_at > operation.at) {
    await files.remove(row);
    return 'done';
  }
  if (replaced && replaced.id !== row.id) await directory.forget(replaced);
  if (isFinal) {
    const values = {
      ...asFound(row, arrived, world.trackedAt(to)),
      path: bytesOf(to),
      uploaded_at: operation.at,
      session_pid: null,
    };
    row = await files.update(row, { ...values, state: directory.arrivalState });
    await directory.arrived(about, row);
  } else {
    const named = { path: bytesOf(to), named_at: operation.at };
    await files.update(row, { ...named, ...(isFreed && { session_pid: null }) });
    if (isKnownByName(row)) await directory.record({ ...about, event: 'renamed' });
  }
  // A rename changes the ctime, so a look decides whether that is all that has changed.
  if (!arrived || !isUnchanged(row, arrived)) requests.look(to, SOON_MS);
  else requests.compared(to);
  if (!arrived || !isSame(row, arrived)) requests.look(from, SOON_MS);
  else if (!left) requests.compared(from);
  return 'done';
}

/** Whether a row that waits for its session gets a final name. A row that waits for its file, not for its session, stays so. */
function isReleased(row: FileRow, to: FilePath, { world }: DirectoryInTransaction): boolean {
  return row.state === 'waiting' && row.session_pid !== null && !world.isTemporary(to);
}

/** Whether a row below a renamed folder gets a final name: the folder's was temporary. */
function isReleasedBelow(row: FileRow, { from, to }: Move, directory: DirectoryInTransaction): boolean {
  return directory.world.isTemporary(from) && isReleased(row, to + pathOf(row.path).slice(from.length), directory);
}

/** A row below a renamed folder follows it, unless the disk shows that its file has stayed. */
async function moveBelow(operation: Move, row: FileRow, directory: DirectoryInTransaction): Promise<void> {
  const { from, to, at } = operation;
  const { files, requests, world } = directory;
  const old = pathOf(row.path);
  const path = to + old.slice(from.length);
  const arrived = directory.fileAt(path);
  if (!arrived || !isFileOf(row, arrived)) {
    requests.look(path, SOON_MS);
    requests.look(old, SOON_MS);
    // A file that nobody has seen may have got the inode of a later one, which has the old name by now.
    const left = row.mtime === STALE_MTIME ? undefined : directory.fileAt(old);
    if (left && isFileOf(row, left)) return;
  }
  const replaced = await files.at(path);
  if (replaced && replaced.id !== row.id) await directory.forget(replaced);
  const isFreed = isReleasedBelow(row, operation, directory);
  const tracked = world.trackedAt(path);
  // A row whose file was being written again waits for the end of that instead.
  if (!isFreed || tracked?.wasOpenAt(at)) {
    const named = { path: bytesOf(path), named_at: at };
    await files.update(row, { ...named, ...(isFreed && { session_pid: null }) });
    return;
  }
  const values = { ...asFound(row, arrived, tracked), path: bytesOf(path), uploaded_at: at, session_pid: null };
  const written = await files.update(row, { ...values, state: directory.arrivalState });
  await directory.arrived({ ...by(operation), path, from: old, bytes: row.size_bytes }, written);
  if (!arrived || !isUnchanged(written, arrived)) requests.look(path, SOON_MS);
}
