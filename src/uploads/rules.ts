/**
 * The rules: what each change means for the rows and for the webhooks. The disk has the last word: a log line tells
 * what was asked for, lstat what came of it.
 *
 * Repeating a change after a crash finds the row as it should be and does nothing.
 */
import type { Batch, UploadDirectory } from './batch.ts';
import { fileStat, isFileOf, isSame, unknownInode } from './batch.ts';
import type { Change, Closed, CutOff, Found, Removed, Renamed, SessionEnded, Touched } from './change.ts';
import type { FileRow, FileStat } from './files.ts';
import type { IsTemporary } from './temp-names.ts';
import { unlessAnother, UNSEEN, uploadedStat } from './uploaded-stat.ts';
import type { Vanished } from './vanished.ts';

export interface RuleOptions {
  readonly isTemporary: IsTemporary;
  readonly vanished: Vanished;
  /** Whether a session of the directory holds that inode open for writing. */
  isWritten(directoryId: string, inode: number): boolean;
}

/** How many rows one transaction changes at most for one change. */
const STEP = 100;

/** Applies one change. Returns what is left of it, to be applied later. */
export async function applyChange(batch: Batch, change: Change, options: RuleOptions): Promise<Change | undefined> {
  const directory = await batch.directory(change.directoryId);
  if (!directory) return undefined;
  switch (change.kind) {
    case 'closed':
      return (await closed(batch, directory, change, options)) ? undefined : change;
    case 'cut-off':
      await cutOff(batch, directory, change);
      return undefined;
    case 'renamed':
      return renamed(batch, directory, change, options);
    case 'removed':
      await removed(batch, directory, change, options);
      return undefined;
    case 'touched':
      await touched(batch, directory, change);
      return undefined;
    case 'found':
      await found(batch, directory, change, options);
      return undefined;
    case 'session-ended':
      return (await sessionEnded(batch, directory, change, options)) ? change : undefined;
  }
}

/** Returns false when it cannot be said yet what was uploaded. */
async function closed(
  batch: Batch,
  directory: UploadDirectory,
  change: Closed,
  options: RuleOptions,
): Promise<boolean> {
  const stats = batch.look(directory, change.path);
  if (!stats?.isFile()) {
    // Renamed or removed in the meantime: the log will say which.
    options.vanished.add(change);
    return true;
  }
  const stat = fileStat(stats);
  const before = await batch.files.at(directory.id, change.path);
  // The scan came first, as it may right after a start.
  const mayBeKnown = before?.source === 'disk' || change.isGuess === true;
  if (mayBeKnown && before?.state === 'uploaded' && isSame(before, stat)) return true;
  const uploaded = uploadedStat(batch, change, stat);
  if (!uploaded) return false;
  if (options.isTemporary(change.path)) {
    // A client may use one temporary name for file after file: this one has been renamed, and the log will say so.
    if (uploaded.mtime === UNSEEN) options.vanished.add(change);
    const row = { ...newRow(change, stat), state: 'waiting' as const, session_pid: change.pid };
    await batch.files.put(row, before);
    return true;
  }
  await batch.files.put(newRow(change, unlessAnother(uploaded, stat)), before);
  batch.announce(directory, { ...change, bytes: uploaded.size_bytes });
  return true;
}

async function cutOff(batch: Batch, directory: UploadDirectory, change: CutOff): Promise<void> {
  const stats = batch.look(directory, change.path);
  if (!stats?.isFile()) return;
  const before = await batch.files.at(directory.id, change.path);
  if (before && isSame(before, fileStat(stats))) return; // nothing had been written
  await batch.files.put({ ...newRow(change, fileStat(stats)), state: 'partial' }, before);
  batch.note(directory, { ...change, event: 'upload-dropped', bytes: stats.size });
}

async function renamed(
  batch: Batch,
  directory: UploadDirectory,
  change: Renamed,
  options: RuleOptions,
): Promise<Change | undefined> {
  if (change.underway) return moveRows(batch, directory, change);
  const stats = batch.look(directory, change.path);
  const vanished = options.vanished.take(directory.id, change.from);
  if (vanished) {
    return (await arrivedElsewhere(batch, directory, vanished, change, options)) ? undefined : change;
  }
  const row = await batch.files.at(directory.id, change.from);
  if (row) {
    const moved = stats ? isFileOf(row, fileStat(stats)) : !batch.look(directory, change.from);
    if (moved) await moveRow(batch, directory, row, change, options);
    return undefined;
  }
  if (stats ? stats.isDirectory() : !batch.look(directory, change.from)) return moveFolder(batch, directory, change);
  return undefined;
}

/**
 * A file was closed and renamed before we looked: it counts as if we had looked in between. Returns false when it cannot be
 * said yet what was uploaded.
 */
async function arrivedElsewhere(
  batch: Batch,
  directory: UploadDirectory,
  upload: Closed,
  change: Renamed,
  options: RuleOptions,
): Promise<boolean> {
  const stats = batch.look(directory, change.path);
  if (!stats?.isFile()) {
    options.vanished.add(upload, change.path); // renamed once more, or removed
    return true;
  }
  const stat = fileStat(stats);
  const before = await batch.files.at(directory.id, change.path);
  // sshd refused, since another file had that name: that one is as it was, or tells of itself when it is closed.
  const isAnother =
    (before !== undefined && isSame(before, stat)) ||
    options.vanished.has(directory.id, change.path) ||
    options.isWritten(directory.id, stat.inode);
  if (isAnother) {
    options.vanished.add(upload);
    return true;
  }
  const temporary = options.isTemporary(upload.path);
  if (temporary && options.isTemporary(change.path)) {
    await batch.files.put({ ...newRow(change, stat), state: 'waiting', session_pid: upload.pid }, before);
    return true;
  }
  const uploaded = uploadedStat(batch, upload, stat);
  if (!uploaded) {
    options.vanished.add(upload, change.from);
    return false;
  }
  const { path, at, from } = temporary ? change : { ...upload, from: undefined };
  await batch.files.put(newRow({ ...change, at }, unlessAnother(uploaded, stat)), before);
  batch.announce(directory, { by: upload.by, beganAt: upload.beganAt, path, from, at, bytes: uploaded.size_bytes });
  if (!temporary) batch.note(directory, { ...change, event: 'renamed', bytes: uploaded.size_bytes });
  return true;
}

/** The row follows its file. A waiting file that got a final name is complete now. */
async function moveRow(
  batch: Batch,
  directory: UploadDirectory,
  row: FileRow,
  { path, at, by }: Pick<Renamed, 'path' | 'at' | 'by'>,
  options: RuleOptions,
): Promise<void> {
  const target = await batch.files.at(directory.id, path);
  if (target && target.id !== row.id) await batch.files.remove(target);
  if (row.state === 'waiting' && !options.isTemporary(path)) {
    await batch.files.update(row, { path, state: 'uploaded', uploaded_at: at, session_pid: null });
    batch.announce(directory, { by, path, from: row.path, at, bytes: row.size_bytes });
  } else {
    await batch.files.update(row, { path });
    batch.note(directory, { event: 'renamed', by, path, from: row.path, at, bytes: row.size_bytes });
  }
}

/** The rows below a renamed folder follow it, if it was renamed: only the files can say, when both names are there. */
async function moveFolder(batch: Batch, directory: UploadDirectory, change: Renamed): Promise<Change | undefined> {
  const { from, path } = change;
  if (isAtOrBelow(path, from)) return undefined; // no kernel allows it
  const [sample, stale] = [
    await batch.files.below(directory.id, from, undefined, 10),
    await batch.files.below(directory.id, path, undefined, STEP),
  ];
  const arrived = sample.some((row) => {
    const stats = batch.look(directory, newPath(row, change));
    return stats !== undefined && isFileOf(row, fileStat(stats));
  });
  // Both gone: it has been moved on since, or sshd refused because there was a folder with files already.
  const movedOn = stale.length === 0 && !batch.look(directory, from);
  if (!arrived && !movedOn) return undefined;
  for (const row of stale) if (arrived && !isAtOrBelow(row.path, from)) await batch.files.remove(row);
  if (sample.length > 0) batch.note(directory, { ...change, event: 'renamed' });
  return moveRows(batch, directory, change);
}

async function moveRows(batch: Batch, directory: UploadDirectory, change: Renamed): Promise<Change | undefined> {
  const rows = await batch.files.below(directory.id, change.from, undefined, STEP);
  for (const row of rows) await batch.files.update(row, { path: newPath(row, change) });
  return rows.length === STEP ? { ...change, underway: true } : undefined;
}

function newPath(row: FileRow, { from, path }: Renamed): Buffer {
  return Buffer.concat([path, row.path.subarray(from.length)]);
}

function isAtOrBelow(path: Buffer, folder: Buffer): boolean {
  return path.equals(folder) || path.subarray(0, folder.length + 1).equals(Buffer.concat([folder, Buffer.from('/')]));
}

async function removed(batch: Batch, directory: UploadDirectory, change: Removed, options: RuleOptions): Promise<void> {
  options.vanished.take(directory.id, change.path);
  const row = await batch.files.at(directory.id, change.path);
  if (!row) return;
  const stats = batch.look(directory, change.path);
  // Still the same file: sshd refused. Another one: its own events tell of it.
  if (stats && isFileOf(row, fileStat(stats))) return;
  await batch.files.remove(row);
  batch.note(directory, { ...change, event: 'removed', bytes: row.size_bytes });
}

async function touched(batch: Batch, directory: UploadDirectory, change: Touched): Promise<void> {
  const row = await batch.files.at(directory.id, change.path);
  const stats = row && batch.look(directory, change.path);
  if (row && row.mtime !== UNSEEN && stats?.ino === row.inode && stats.isFile())
    await batch.files.update(row, fileStat(stats));
}

async function found(batch: Batch, directory: UploadDirectory, change: Found, options: RuleOptions): Promise<void> {
  const stats = batch.look(directory, change.path);
  if (!stats?.isFile()) return;
  const stat = fileStat(stats);
  const before = await batch.files.at(directory.id, change.path);
  if (before && isSame(before, stat)) {
    if (before.inode < 0) await batch.files.update(before, stat);
    return;
  }
  const twins = [
    ...(await batch.files.withInode(directory.id, stat.inode)),
    ...(await batch.files.withInode(directory.id, unknownInode(stat.mtime))),
  ];
  const earlier = twins.find((row) => isSame(row, stat) && !batch.look(directory, row.path));
  if (earlier) {
    if (earlier.inode < 0) await batch.files.update(earlier, stat);
    return moveRow(batch, directory, { ...earlier, ...stat }, change, options);
  }
  const row = { ...newRow(change, stat), source: 'disk' as const };
  if (change.pid !== undefined && options.isTemporary(change.path)) {
    await batch.files.put({ ...row, state: 'waiting', session_pid: change.pid }, before);
    return;
  }
  await batch.files.put(row, before);
  batch.announce(directory, { ...change, bytes: stat.size_bytes });
}

async function sessionEnded(
  batch: Batch,
  directory: UploadDirectory,
  change: SessionEnded,
  options: RuleOptions,
): Promise<boolean> {
  options.vanished.forget(change.pid);
  const rows = await batch.files.waiting(directory.id, change.pid);
  for (const row of rows) {
    if (batch.look(directory, row.path)) {
      await batch.files.update(row, { state: 'uploaded', uploaded_at: change.at, session_pid: null });
      batch.announce(directory, { by: change.by, path: row.path, at: change.at, bytes: row.size_bytes });
    } else {
      await batch.files.remove(row);
    }
  }
  return rows.length > 0;
}

/** An upload that the log reported; callers change what differs. */
function newRow(change: Pick<Closed, 'directoryId' | 'path' | 'at'>, stat: FileStat): Omit<FileRow, 'id'> {
  return {
    directory_id: change.directoryId,
    path: change.path,
    ...stat,
    state: 'uploaded',
    uploaded_at: change.at,
    source: 'log',
    session_pid: null,
  };
}
