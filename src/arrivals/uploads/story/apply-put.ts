/** Records an upload whose last writer has gone: in its row, if the file is there, or by the log's word. */
import { bytesOf, type FilePath, parentOf, pathOf, withoutSuffix } from '../file-path.ts';
import type { FileRow } from '../record/files.ts';
import {
  BUSY_LAG,
  type FileStat,
  isSame,
  isUnchanged,
  isUntouched,
  LOG_LAG,
  type RecordedStat,
  TIMER_GRAIN,
  STALE_MTIME,
  UNKNOWN_INODE,
} from '../record/file-stat.ts';
import type { DirectoryInTransaction } from './directory.ts';
import { REST_MS, type Task } from './jobs.ts';
import { isLike, isOfThatTime } from './lost.ts';
import type { Ending, Put } from './operations.ts';
import { type Outcome, SOON_MS } from './outcome.ts';

/** How many times a put waits for the log because its file keeps changing. */
const MOST_WAITS = 5;

/** The reason given for a partial file that its session has closed. */
const UNPROVEN = 'the machine went down before the file was known to be on the disk';
const REFUSED = 'the server had refused a write, as on a full disk';
const LOST = 'the disk has lost some of it';

/** The reason given for a complete upload whose file may lack something (`DirectoryInTransaction.mayBeShort`). */
export function shortReason({ isOfUnknownSize = false }: Ending): string {
  const why = isOfUnknownSize
    ? "sshd's log does not show how much was written"
    : 'the file is larger than what was written';
  return `a write may have been cut short: a request was refused, and ${why}`;
}

export async function applyPut(operation: Put, task: Task, directory: DirectoryInTransaction): Promise<Outcome> {
  const { path, file, end } = operation;
  if (operation.isVoid) return 'done';
  if (operation.isDoubted()) return { wait: 'refusal' };
  const here = file.path;
  const stat = here === undefined ? undefined : directory.fileAt(here);
  const row = await directory.files.at(path);
  // It is what was removed, or older.
  if (row?.state === 'removed' && end.at <= row.uploaded_at) return 'done';
  if (await isMovedSince(operation, stat, directory)) return 'done';
  if (!stat || (await isAnother(operation, task, here ?? path, stat, row, directory))) {
    // The file may have been renamed or removed by a request whose line has not been read yet.
    if (here !== undefined && !isHeard(task, stat) && task.waits < MOST_WAITS) return { wait: 'log', seen: stat };
    const isReplaced = stat !== undefined && (await isPlaced(stat, row, directory));
    return isReplaced ? outdated(operation, row, directory) : byTheLog(operation, task, row, directory);
  }
  if (row && isSame(row, stat) && end.at <= row.uploaded_at) {
    // Before a crash it was recorded already, and may be partial.
    return end.at === row.uploaded_at ? 'done' : outdated(operation, row, directory);
  }
  if (end.isOfUnknownSize && (await isMoved(path, stat, directory))) {
    directory.requests.look(path, SOON_MS);
    return 'done';
  }
  if (row && row.state !== 'partial' && file.owed.size === 0 && hasAddedNothing(end, row, stat)) {
    // Its session may be over, and have left it to this handle.
    if (row.state === 'waiting') directory.requests.look(path, SOON_MS);
    return 'done';
  }
  // If a later open was not refused, that handle may have written the file since.
  if (file.isDoubted && !task.hasAsked && end.bytes !== stat.size_bytes) return { wait: 'refusal' };
  const isRewritten = isWrittenSince(operation, stat);
  // The size says how much was appended, unless the file was changed again since.
  const expected = end.bytes ?? (isRewritten && !end.isOfUnknownSize ? sizeByTheLog(end, row) : stat.size_bytes);
  // The log says who adds to what was cut off.
  const isAddedTo = !end.isComplete && !isOverwritten(operation);
  const isOfOtherSize = end.isDoubted || (end.bytes ?? -1) !== stat.size_bytes;
  if (isRewritten ? isAddedTo : isOfOtherSize) {
    if (!isHeard(task, stat) && task.waits < MOST_WAITS) return { wait: 'log', seen: stat };
  }
  // A size proves nothing after a power cut: ext4 may write it to the disk before the data, and the file then reads as
  // zeros.
  const isUnproven = end.isUnproven && (stat.size_bytes > 0 || end.written > 0);
  const isShort = !isRewritten && directory.mayBeShort(end, here ?? path);
  let reason: string | undefined;
  if (end.isRefused) reason = REFUSED;
  else if (end.isComplete) reason = task.isLost ? LOST : isUnproven ? UNPROVEN : isShort ? shortReason(end) : undefined;
  if (!end.isComplete || reason !== undefined) return drop(operation, stat, row, directory, reason);
  if (end.isOfUnknownSize && isUnclear(operation, stat, directory)) {
    file.owed.add(end);
    directory.requests.look(path, REST_MS);
    return 'done';
  }
  const bytes = isRewritten ? expected : stat.size_bytes;
  // The open of a writer may have been refused, so a file that may be the upload is synced.
  const isThere = !file.hasOpenWriters || bytes === stat.size_bytes;
  if (isThere && !task.isSynced(stat)) return { wait: 'sync', path: here ?? path };
  // The size of a file that was written since says nothing about a write that may have been cut short.
  const isShown = bytes === stat.size_bytes && !(isRewritten && end.isDoubted);
  // A file that was written since may hold bytes that have not been announced, so the row must not match it.
  const seen = isRewritten ? { ...stat, ctime: STALE_MTIME } : stat;
  await putUpload(operation, isShown ? seen : unseen(end, bytes), row, directory);
  if (isRewritten || !isShown) directory.requests.look(path, SOON_MS);
  else if (here === path) directory.requests.compared(path);
  return 'done';
}

/**
 * Whether the upload was applied before a crash, and its file renamed: the row is where the file is.
 * @param stat the file where the log has brought the upload, if there is one.
 */
async function isMovedSince(
  { path, end, file }: Put,
  stat: FileStat | undefined,
  directory: DirectoryInTransaction,
): Promise<boolean> {
  const inode = end.inode ?? (file.path === path ? undefined : stat?.inode);
  if (inode === undefined || !directory.mayBeRepeated(end)) return false;
  const rows = await directory.files.ofInode({ inode, mtime: STALE_MTIME, size_bytes: 0 });
  return rows.some((row) => {
    const at = pathOf(row.path);
    if (row.inode !== inode || at === path || row.uploaded_at < end.at) return false;
    // Another file may have got the inode.
    return directory.fileAt(at)?.inode === inode && directory.bornAt(at) <= end.at;
  });
}

/**
 * Whether the log has been read up to a moment when the file was as it is now. A rename changes the ctime: another file that
 * had taken the name may have followed it.
 */
function isHeard({ seen }: Task, stat: FileStat | undefined): boolean {
  if (!seen || !stat) return seen === null && !stat;
  return isUntouched(seen, stat);
}

/** Whether the log says that the file is being written again, or has been since, so nothing shows what was uploaded. */
function isOverwritten({ file, end }: Put): boolean {
  return file.hasOpenWriters || file.puts.at(-1)?.end !== end;
}

/** Whether the file is that of a row under another name: it was renamed, in a line that the log has cut off. */
async function isMoved(path: FilePath, stat: FileStat, { files }: DirectoryInTransaction): Promise<boolean> {
  const rows = await files.ofInode(stat);
  return rows.some((row) => pathOf(row.path) !== path && isSame(row, stat));
}

/** Whether the file at the path is another one than was uploaded. */
async function isAnother(
  { end, file }: Put,
  task: Task,
  path: FilePath,
  stat: FileStat,
  row: FileRow | undefined,
  directory: DirectoryInTransaction,
): Promise<boolean> {
  const { inode, openedAt, bytes: expected } = end;
  if (inode !== undefined && inode !== stat.inode) {
    if (directory.bornAt(path) > end.at) return true;
    // The log line of the open may have been read so late that another file had the name by then.
    const mayBeDropped = !end.isComplete && expected === undefined && isOfThatTime(end, stat, LOG_LAG);
    if (mayBeDropped) return (await directory.files.ofInode(stat)).some((other) => isSame(other, stat));
    return !isLike(end, stat) && !(file.wasSet && expected === stat.size_bytes);
  }
  if (expected === stat.size_bytes && inode !== undefined) return false;
  // The size of a dropped file is never certain: two handles with one name may have been mixed up.
  // A write that was cut short was not counted, so a doubted size says nothing.
  const mayBeOlder = end.isComplete && !end.isDoubted && openedAt !== undefined;
  const isOlder = mayBeOlder && stat.mtime < openedAt - LOG_LAG && !file.wasSet;
  if (isOlder && expected !== undefined && expected !== stat.size_bytes) return true;
  // Nothing but its name says that it is the upload, and it lacks what was written: a part was written twice, or it is another upload's.
  const isSmaller = expected !== undefined && stat.size_bytes < expected && stat.mtime <= end.at + TIMER_GRAIN;
  if (mayBeOlder && inode === undefined && isSmaller && !file.wasSet) {
    if (!isHeard(task, stat)) return true;
    if ((await directory.files.ofInode(stat)).some((other) => pathOf(other.path) !== path)) return true;
  }
  // A file that was touched since its row was written may be the upload: an open file keeps its inode.
  const isTouched = row?.inode === stat.inode && !isUnchanged(row, stat);
  return !isTouched && isPlaced(stat, undefined, directory);
}

/**
 * Handles an upload whose file the API has replaced since, or which a look found before its lines were read. A look has
 * announced it already.
 */
async function outdated(
  { path, end }: Put,
  row: FileRow | undefined,
  directory: DirectoryInTransaction,
): Promise<Outcome> {
  const wasFound = row?.source === 'disk' && row.state !== 'placed';
  // Of some uploads only the file shows whether they are complete, or their size.
  const isKnown = end.isComplete && !end.isUnproven && !end.isDoubted && !end.isOfUnknownSize;
  if (!wasFound && isKnown && !directory.world.isTemporary(path)) {
    await directory.arrived(announcement(path, end, end.bytes ?? end.written), undefined);
  }
  return 'done';
}

/** Whether the file came by HTTPS instead of from this upload. */
async function isPlaced(stat: FileStat, row: FileRow | undefined, { files }: DirectoryInTransaction): Promise<boolean> {
  if (row?.state === 'placed' && isUnchanged(row, stat)) return true;
  const placement = await files.placementOf(stat);
  return placement !== undefined && isSame(placement, stat);
}

/** Whether the file may have been written since that upload, or may still be. Asks the kernel. */
function isUnclear(operation: Put, stat: FileStat, directory: DirectoryInTransaction): boolean {
  const { end, path, file } = operation;
  const mayBeWritten = isOverwritten(operation) || isChangedSince(end, stat);
  if (mayBeWritten || directory.world.mayWrite(path, stat.inode)) return true;
  // The next upload may have emptied, written and closed the file before the kernel was asked.
  const there = file.path === undefined ? undefined : directory.fileAt(file.path);
  return !there || !isUntouched(there, stat);
}

/** Whether the file has been written since the line of its close was read. A client may have set its times only. */
function isChangedSince({ seen }: Ending, stat: FileStat): boolean {
  if (!seen || seen.ctime === stat.ctime) return false;
  return seen.size_bytes !== stat.size_bytes || stat.mtime === stat.ctime;
}

/** Whether somebody wrote the file after that upload had ended. */
function isWrittenSince({ end, file, ...put }: Put, stat: FileStat): boolean {
  if (
    file.hasOpenWriters ||
    ((file.isDoubted || file.mayBeCutOff) && end.bytes !== stat.size_bytes) ||
    file.isHeld(stat.inode) ||
    file.puts.at(-1)?.end !== end ||
    put.resizedTo !== undefined
  )
    return true;
  // A write sets both times. A client sets one.
  return stat.mtime > end.at + TIMER_GRAIN && (!file.wasSet || stat.mtime === stat.ctime);
}

/**
 * The file's size according to the log. The rows are as the log has them at that point, so a handle that did not begin
 * with an empty file has added to the row's size, or to the size that was set.
 */
function sizeByTheLog({ bytes, resizedTo, written }: Ending, row: FileRow | undefined): number {
  return bytes ?? (resizedTo ?? row?.size_bytes ?? 0) + written;
}

/**
 * Records an upload whose file is not at its path: it was renamed, replaced or removed since, and later operations say
 * so.
 */
async function byTheLog(
  operation: Put,
  task: Task,
  row: FileRow | undefined,
  directory: DirectoryInTransaction,
): Promise<Outcome> {
  const { end, path } = operation;
  if (end.isUnwritten && row) return 'done';
  // After a crash, the path may have a later upload already.
  const isLater = row !== undefined && row.uploaded_at > end.at;
  if (!end.isComplete || end.isUnproven || end.isOfUnknownSize) {
    // The row goes where the file goes.
    if (!end.isComplete && !isLater && (end.bytes !== undefined || end.written > 0)) {
      const stat = { ...unseen(end, sizeByTheLog(end, row)), ctime: STALE_MTIME };
      await drop(operation, stat, row, directory, end.isRefused ? REFUSED : undefined);
      if (isOverwritten(operation)) return 'done';
    }
    directory.world.lost.addMissing(directory.row.id, end, path, directory.bornAt(parentOf(path)));
    // The file at the path may still be the right one, if the log was read very late. Or else it is elsewhere.
    directory.requests.look(path, SOON_MS);
    if (directory.world.isTemporary(path)) directory.requests.look(withoutSuffix(path), SOON_MS);
    directory.requests.compare();
    return 'done';
  }
  const size = sizeByTheLog(end, row);
  // The rows already show a later change of the file: the API may have removed it.
  if (await directory.wasAnnounced(announcement(path, end, size))) return 'done';
  if (isLater && row.source === 'log') return outdated(operation, row, directory);
  // The file may be back: a rename whose line has not been read yet.
  const there = directory.fileAt(path);
  if (there?.size_bytes === size && !task.isSynced(there)) return { wait: 'sync', path };
  await putUpload(operation, unseen(end, size), row, directory);
  directory.requests.look(path, SOON_MS);
  return 'done';
}

/** The values for a row that must not match any file. */
function unseen({ inode }: Ending, size_bytes: number) {
  return { inode: inode ?? UNKNOWN_INODE, mtime: STALE_MTIME, ctime: null, size_bytes };
}

/**
 * Whether the row's file is as it was before the handle was opened. What the log may have missed (a write that the disk
 * cut short, a size that was set), the ctime shows.
 */
function hasAddedNothing(end: Ending, row: FileRow, stat: FileStat): boolean {
  const { isUnwritten, isDoubted, isEmptied = false, written, openedAt } = end;
  if (isEmptied) return false;
  if (isUnwritten && !isDoubted) return isSame(row, stat);
  // If the process died, only the ctime says whether it had written.
  const lag = end.isComplete ? LOG_LAG : BUSY_LAG;
  return written === 0 && isUnchanged(row, stat) && openedAt !== undefined && stat.ctime < openedAt - lag;
}

async function putUpload(
  { path, file, end }: Put,
  stat: Omit<RecordedStat, 'uploaded_at'>,
  row: FileRow | undefined,
  directory: DirectoryInTransaction,
): Promise<void> {
  // A write may have been cut short. Only its file shows whether one was, so the upload is announced when that is found.
  const isMissing = end.isDoubted && stat.mtime === STALE_MTIME;
  if (isMissing) directory.world.lost.addAwaited(directory.row.id, end, directory.fileAt(path) ? undefined : path);
  const isWaiting = isMissing || end.isReserved || directory.world.isTemporary(path);
  const written = await directory.put(
    {
      ...stat,
      path: bytesOf(path),
      // After a crash the same upload may be applied again. It keeps its id.
      ...(row?.uploaded_at === end.at && { id: row.id }),
      state: isWaiting ? 'waiting' : directory.arrivalState,
      uploaded_at: end.at,
      source: 'log',
      session_pid: isWaiting && !isMissing ? end.by.pid : null,
    },
    row,
  );
  if (isWaiting) return;
  for (const owed of directory.takeOwed(file)) {
    await directory.arrived(announcement(path, owed, stat.size_bytes), written);
  }
  await directory.arrived(announcement(path, end, stat.size_bytes), written);
}

/** Records a partial file: the connection died, the server refused a write, or written data may be lost. */
async function drop(
  operation: Put,
  stat: FileStat,
  row: FileRow | undefined,
  directory: DirectoryInTransaction,
  reason: string | undefined,
): Promise<Outcome> {
  const { path, end } = operation;
  // Nothing had been written: the log says so, or the ctime if the process died without a line. The row may have the ctime of
  // what that process had written, if it had opened the file right after the row's upload.
  const mayBeUnchanged = end.written === 0 && end.isEmptied !== true;
  const isKnownOpen = end.openedAt !== undefined && row?.state !== 'partial';
  if (row && mayBeUnchanged && ((!isKnownOpen && isUnchanged(row, stat)) || hasAddedNothing(end, row, stat)))
    return 'done';
  // What was sent before has gone.
  directory.takeOwed(operation.file);
  const isRewritten = isWrittenSince(operation, stat);
  // A later handle adds to what this one has left. Of a process that died, nobody knows how much that is.
  const isKnown = isOverwritten(operation) && (end.bytes !== undefined || end.written > 0);
  const size_bytes = isKnown ? sizeByTheLog(end, row) : stat.size_bytes;
  const seen = isRewritten ? { ...stat, mtime: STALE_MTIME, size_bytes } : stat;
  // If the file turns up elsewhere, looking like the row's, it is what this handle has left. The line of its open may have been read
  // when another file had the name.
  const isOfRow =
    end.bytes === undefined || (end.inode === undefined ? end.bytes === row?.size_bytes : end.inode === row?.inode);
  const isCounted = row !== undefined && row.state !== 'removed';
  const before = isCounted && isOfRow ? ({ ...row, state: 'partial' } as const) : row;
  const values = { ...seen, path: bytesOf(path), uploaded_at: end.at, source: 'log', session_pid: null } as const;
  await directory.put({ ...values, state: 'partial' }, before);
  const bytes = isRewritten ? (end.bytes ?? size_bytes) : stat.size_bytes;
  await directory.record({ ...announcement(path, end, bytes), event: 'upload-dropped', reason });
  if (isRewritten) directory.requests.look(path, SOON_MS);
  return 'done';
}

function announcement(path: FilePath, { at, by: session, openedAt }: Ending, bytes: number) {
  return { path, at, by: session, openedAt, bytes };
}
