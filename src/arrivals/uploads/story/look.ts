/**
 * Compares a path on the disk with its row, and records what no operation of the log explains: an administrator's copy,
 * a file that was removed by hand, a disagreement that `apply.ts` met.
 */
import { arrivalState } from '../arrival.ts';
import { bytesOf, type FilePath, pathOf } from '../file-path.ts';
import { type FileRow, isKnownByName, type Placement } from '../record/files.ts';
import {
  type FileStat,
  fileStat,
  isCopy,
  isFileOf,
  isSame,
  isUnchanged,
  isUntouched,
  STALE_MTIME,
  TIMER_GRAIN,
} from '../record/file-stat.ts';
import { type Look, REST_MS } from './jobs.ts';
import { isUnseen, type MaySet, mayHave } from './lost.ts';
import { shortReason } from './apply-put.ts';
import type { DirectoryInTransaction, Found } from './directory.ts';
import type { Ending, Resize, TrackedFile } from './operations.ts';

/** How long a file has to be missing before its row is removed, in ms. A move causes two events. */
const GONE_MS = 3000;

/** How soon to look again if an upload of the file is still to be recorded, in ms. */
const PENDING_MS = 50;

/** The pause between looks while the jails' disk is not mounted, in ms. */
const AWAY_MS = 10_000;

export type LookOutcome =
  | 'settled'
  /** Look again after that many ms. */
  | { readonly again: number }
  /** First the log has to be read, and the kernel has to say whether a session has the file open for writing. */
  | { readonly wait: 'explanation' }
  | { readonly wait: 'sync' };

/** @param file the story's file at that path. */
export async function lookAt(
  look: Look,
  file: TrackedFile | undefined,
  directory: DirectoryInTransaction,
): Promise<LookOutcome> {
  const { path } = look;
  const found = directory.world.lstat(path);
  const stat = found?.isFile() ? fileStat(found) : undefined;
  const row = await directory.files.at(path);
  const stillFor = timeSince(look, stat, directory.world.ms);
  if (!found || !stat) return row ? missing(look, row, stillFor, directory) : 'settled';
  if (row && isUnchanged(row, stat)) {
    // If the row waits, the close of the handle that writes the file announces it.
    return file?.hasOpenWriters ? 'settled' : known(row, stat, directory);
  }
  look.wasSet ||= directory.world.wasSet(path);
  const isOwing = owedBy(file, stat).length > 0;
  const isOfRow = row?.inode === stat.inode && file?.resized?.inode === stat.inode;
  // A size that the file has already changes nothing.
  const isResized = isOfRow && (row.size_bytes !== stat.size_bytes || file.resized.isVaried);
  const resized = isResized && row.uploaded_at < file.resized.at ? file.resized : undefined;
  const isAsSet = look.wasSet && row?.mtime === STALE_MTIME && row.size_bytes === stat.size_bytes;
  if (row && !resized && !isOwing && (isAsSet || isStillPartial(row, stat) || isUnseen(row, stat, true))) {
    // The file is being written again, so it is not what the row has. The end of that says more.
    if (file?.hasOpenWriters) return 'settled';
    // Nobody has synced the file, since nobody knew where it was.
    if (!look.isSynced(stat)) return { wait: 'sync' };
    await directory.files.update(row, stat);
    return known(row, stat, directory);
  }
  const wasSet = look.wasSet && row !== undefined && row.mtime !== STALE_MTIME && row.inode === stat.inode;
  if (wasSet && file?.isHeld(stat.inode)) return { again: REST_MS };
  if (
    row &&
    !isOwing &&
    (resized || isSame(row, stat) || isCopyOf(row, stat) || (wasSet && row.size_bytes === stat.size_bytes))
  ) {
    // The log names every session that wrote to the file. If none did, only its times, mode or name have changed.
    if (!look.found?.isUnexplained) return { wait: 'explanation' };
    if (file?.isHeld(stat.inode)) return { again: REST_MS };
    const mustBeKnown = resized !== undefined || row.state === 'removed';
    if (mustBeKnown && directory.world.isDoubted(found)) return unproven(path, stat, row, directory);
    if (resized) return resize(look, stat, { resized, row }, directory);
    if (directory.world.isEndPending(stat)) return { again: PENDING_MS };
    // Another file with that size and those times is a copy, unless it has a row under the name with which a session has sent it.
    const isOther = !isFileOf(row, stat) || isBornAfter(row, found);
    const moved = isOther ? await elsewhere(look, found, stat, row, directory) : undefined;
    if (moved) return moved;
    if (!endingOf(look, found, stat, row, directory)) {
      return file?.hasOpenWriters ? 'settled' : touched(row, stat, directory);
    }
  }
  const placement = await directory.files.placementOf(stat);
  const isNew = placement?.recorded === 0;
  if (isNew && isSame(placement, stat)) return placed(look, stat, { placement, row }, directory);
  if (!look.found?.isUnexplained) return { wait: 'explanation' };
  if (directory.world.isEndPending(stat)) return { again: PENDING_MS };
  // A session still writes the file, and its close will be logged. Or its end has become known meanwhile, and is still to be applied.
  if (file && (file.isHeld(stat.inode) || file.puts.length > 0)) return { again: REST_MS };
  // A client may have set the file's times, so only the size has to agree.
  if (isNew && !isOwing && look.wasSet && placement.size_bytes === stat.size_bytes)
    return placed(look, stat, { placement, row }, directory);
  return (
    (await elsewhere(look, found, stat, row, directory)) ?? unexplained(look, found, stat, row, stillFor, directory)
  );
}

/**
 * Whether the file is that of a partial row, although a client has set its times since, or another file was taken for it: what has
 * come later has changed later.
 */
function isStillPartial(row: FileRow, { size_bytes, ctime }: FileStat): boolean {
  if (row.state !== 'partial' || row.size_bytes !== size_bytes) return false;
  return row.mtime === STALE_MTIME || ctime <= row.uploaded_at;
}

/**
 * Whether the file is that of a partial row, and has the size that was left. No session has written it: an administrator has, who has
 * a command to announce it, or has only touched it.
 */
function isOfPartial(row: FileRow, found: Found, stat: FileStat): boolean {
  const isFile = row.inode === stat.inode && !isBornAfter(row, found);
  return isFile && row.state === 'partial' && row.size_bytes === stat.size_bytes;
}

/** Whether somebody may have put a copy of the row's file there. After a removal, that is a new file. */
function isCopyOf(row: FileRow, stat: FileStat): boolean {
  return row.state !== 'removed' && isCopy(row, stat);
}

/** Whether another file has got the inode of the row's file, which is gone. */
function isBornAfter(row: FileRow, { birthtimeMs }: Found): boolean {
  return row.inode >= 0 && birthtimeMs * 1000 > row.uploaded_at;
}

/** There is no file at the path, but there is a row. */
async function missing(
  look: Look,
  row: FileRow,
  stillFor: number,
  directory: DirectoryInTransaction,
): Promise<LookOutcome> {
  if (stillFor < GONE_MS) return { again: GONE_MS - stillFor };
  if (!directory.world.isDiskThere()) return { again: AWAY_MS };
  if (!look.found?.isUnexplained) return { wait: 'explanation' };
  const { now } = directory.world;
  // The row's file was never seen, and may be at a path that the log does not name.
  if (row.mtime === STALE_MTIME) directory.requests.compare();
  if (row.state !== 'removed')
    await directory.record({ event: 'removed', path: look.path, at: now, bytes: row.size_bytes });
  await directory.forget(row);
  return 'settled';
}

/** The file agrees with its row. If it waits for the end of a session that is over already, it is announced. */
async function known(row: FileRow, stat: FileStat, directory: DirectoryInTransaction): Promise<LookOutcome> {
  const { world, files } = directory;
  const isAbandoned = row.state === 'waiting' && (row.session_pid === null || !world.pids().includes(row.session_pid));
  if (!isAbandoned) return 'settled';
  const at = world.now;
  const written = await files.update(row, {
    ...stat,
    state: directory.arrivalState,
    uploaded_at: at,
    session_pid: null,
  });
  await directory.arrived({ path: pathOf(row.path), at, bytes: stat.size_bytes }, written);
  return 'settled';
}

/**
 * The file is the row's, or a copy of it, and no session has written to it since. Where uploads are checked, the ctime
 * alone says what the checker has seen, so the file is checked again, and is not announced again.
 */
async function touched(row: FileRow, stat: FileStat, directory: DirectoryInTransaction): Promise<LookOutcome> {
  const { world, files } = directory;
  const { state } = row;
  const isComplete = state === 'uploaded' || state === 'placed';
  const again = isComplete && { state: 'checking' as const, returns_to: state };
  await files.update(row, { ...stat, ...(world.isChecked && again), check_failure: null });
  return known({ ...row, ...stat }, stat, directory);
}

/** A client has set the size of the row's file: like an overwrite, this is a new upload. */
async function resize(
  look: Look,
  stat: FileStat,
  { resized: { by, at }, row }: { readonly resized: Resize; readonly row: FileRow },
  directory: DirectoryInTransaction,
): Promise<LookOutcome> {
  const { world, files, requests } = directory;
  const { path } = look;
  // It is incomplete, or is still to be announced.
  if (row.state === 'partial' || row.state === 'waiting') return touched(row, stat, directory);
  if (!look.isSynced(stat)) return { wait: 'sync' };
  const values = { ...stat, path: bytesOf(path), uploaded_at: at, source: 'log' } as const;
  if (world.isTemporary(path) && world.pids().includes(by.pid)) {
    await files.put({ ...values, state: 'waiting', session_pid: by.pid }, row);
    requests.waits(by.pid, path);
  } else {
    const written = await files.put({ ...values, state: directory.arrivalState, session_pid: null }, row);
    await directory.arrived({ path, at, by, bytes: stat.size_bytes }, written);
  }
  return 'settled';
}

/** Records a file that came by HTTPS. A file from the API is not an upload; a file from an upload link is. */
async function placed(
  look: Look,
  stat: FileStat,
  { placement, row }: { readonly placement: Placement; readonly row: FileRow | undefined },
  directory: DirectoryInTransaction,
): Promise<LookOutcome> {
  const { files, world } = directory;
  const { path } = look;
  // Its name was requested, and waits for nothing.
  const values = { ...stat, path: bytesOf(path), uploaded_at: world.now, named_at: 0, session_pid: null };
  if (placement.via === null) {
    await files.removePlacement(stat);
    await directory.put({ ...values, state: 'placed', source: 'disk' }, row);
    return 'settled';
  }
  if (!look.isSynced(stat)) return { wait: 'sync' };
  await files.keepPlacement(stat);
  // The source is `log`, so that an older upload of that name is announced as one of its own, not taken for this file.
  const state = arrivalState({ ...world, settles: false });
  const written = await directory.put({ ...values, state, source: 'log' }, row);
  const byLink = { address: placement.address ?? '' };
  await directory.arrived({ path, at: world.now, bytes: stat.size_bytes, byLink }, written);
  return 'settled';
}

/** Handles a file that has a row under another name, or whose row was removed before the file was seen here. */
async function elsewhere(
  look: Look,
  found: Found,
  stat: FileStat,
  row: FileRow | undefined,
  directory: DirectoryInTransaction,
): Promise<LookOutcome | undefined> {
  const { files, world } = directory;
  const { path } = look;
  const set = { wasSet: look.wasSet, bornAt: found.birthtimeMs * 1000 };
  const other = await rowElsewhere(set, stat, row, directory);
  const of = other ?? world.lost.rowOf(directory.row.id, stat, set);
  if (!of) return undefined;
  const isFinal = of.state === 'waiting' && !world.isTemporary(path);
  if (isFinal && !look.isSynced(stat)) return { wait: 'sync' };
  if (row) await directory.forget(row);
  const about = { path, from: pathOf(of.path), at: world.now, bytes: stat.size_bytes };
  const values = isFinal ? { state: directory.arrivalState, uploaded_at: world.now, session_pid: null } : {};
  const now = { ...stat, named_at: world.now, ...values, path: bytesOf(path) };
  if (!other) directory.found.push(of);
  const written = other ? await files.update(other, now) : await files.put({ ...of, ...now }, undefined);
  if (isFinal) await directory.arrived(about, written);
  else if (other && isKnownByName(other)) await directory.record({ ...about, event: 'renamed' });
  return known(written, stat, directory);
}

/** The row that has the file under an old name. */
async function rowElsewhere(
  set: MaySet,
  stat: FileStat,
  own: FileRow | undefined,
  directory: DirectoryInTransaction,
): Promise<FileRow | undefined> {
  for (const row of await directory.files.ofInode(stat)) {
    if (row.id === own?.id) continue;
    const path = pathOf(row.path);
    const there = directory.fileAt(path);
    // A client may have set the times under the old name.
    const wasSet = set.wasSet || directory.world.wasSet(path);
    if (there && (isFileOf(row, there) || directory.isStillAt(row))) continue;
    if (mayHave(row, stat, { ...set, wasSet })) return row;
  }
  return undefined;
}

/**
 * Records a file that nothing explains: it is from an upload whose name was not known at its end, or somebody else put
 * it there.
 */
async function unexplained(
  look: Look,
  found: Found,
  stat: FileStat,
  row: FileRow | undefined,
  stillFor: number,
  directory: DirectoryInTransaction,
): Promise<LookOutcome> {
  const { world } = directory;
  const { path } = look;
  const age = world.now / 1000 - found.ctimeMs;
  const isOld = age >= REST_MS && age < 1e12;
  const end = endingOf(look, found, stat, row, directory);
  const file = world.trackedAt(path);
  const owed = owedBy(file, stat);
  if (row && !end && owed.length === 0 && isOfPartial(row, found, stat)) return touched(row, stat, directory);
  // The kernel has shown that this very file was closed, and nobody has written it since.
  const isKnown = end?.isComplete === true && end.inode === stat.inode && stat.mtime <= end.at + TIMER_GRAIN;
  if (stillFor < REST_MS && !isOld && !isKnown) return { again: REST_MS - stillFor };
  if (look.isLost || world.isDoubted(found)) return unproven(path, stat, row, directory);
  if (!look.isSynced(stat)) return { wait: 'sync' };
  if (end) directory.matched.push(end);
  if (file) directory.takeOwed(file);
  const pid = end?.by.pid ?? world.pids()[0];
  const isWaiting = world.isTemporary(path) && pid !== undefined && world.pids().includes(pid);
  const latest = end ?? owed.at(-1);
  const uploaded_at = latest?.at ?? world.now;
  const values = { ...stat, path: bytesOf(path), uploaded_at, source: latest ? 'log' : 'disk' } as const;
  // A client may have set the size once the folder had another name.
  const isShort = end !== undefined && file?.resized?.size !== stat.size_bytes && directory.mayBeShort(end, path);
  if (end && (!end.isComplete || isShort)) {
    await directory.put({ ...values, state: 'partial', session_pid: null }, row);
    const reason = end.isComplete ? shortReason(end) : undefined;
    await directory.record({ path, at: end.at, by: end.by, bytes: stat.size_bytes, event: 'upload-dropped', reason });
  } else if (isWaiting) {
    await directory.put({ ...values, state: 'waiting', session_pid: pid }, row);
    directory.requests.waits(pid, path);
  } else {
    const written = await directory.put({ ...values, state: directory.arrivalState, session_pid: null }, row);
    const about = { path, bytes: stat.size_bytes };
    const ends = end ? [...owed, end] : owed;
    for (const { at, by, openedAt } of ends) await directory.arrived({ ...about, at, by, openedAt }, written);
    if (ends.length === 0) await directory.arrived({ ...about, at: uploaded_at }, written);
  }
  return 'settled';
}

/**
 * Records a file as partial because nothing shows that it is complete. A client may resume the upload, or an operator
 * decides.
 */
async function unproven(
  path: FilePath,
  stat: FileStat,
  row: FileRow | undefined,
  directory: DirectoryInTransaction,
): Promise<LookOutcome> {
  const at = directory.world.now;
  const values = { state: 'partial', uploaded_at: at, source: 'disk', session_pid: null } as const;
  await directory.put({ ...stat, ...values, path: bytesOf(path) }, row);
  await directory.record({ event: 'upload-dropped', path, at, bytes: stat.size_bytes });
  return 'settled';
}

/** Uploads that have not been announced, because the file might have been written again: it was as it is now when they ended. */
function owedBy(file: TrackedFile | undefined, { size_bytes, mtime }: FileStat): Ending[] {
  if (!file || file.hasOpenWriters) return [];
  return [...file.owed].filter(({ seen }) => seen?.size_bytes === size_bytes && (seen.mtime === mtime || file.wasSet));
}

/** The upload without a known name that may have left this file. */
function endingOf(
  { path, wasSet }: Look,
  found: Found,
  stat: FileStat,
  row: FileRow | undefined,
  { world, row: of, matched }: DirectoryInTransaction,
) {
  const times = { changedAt: found.ctimeMs * 1000, bornAt: found.birthtimeMs * 1000, wasSet };
  return world.lost.endingOf(of.id, path, { ...stat, ...times }, row, matched);
}

/** How long looks have found the same file, or none, in ms. Starts over when that changes. */
function timeSince(look: Look, stat: FileStat | undefined, now: number): number {
  const { found } = look;
  const before = found?.stat;
  const isStill = before && stat ? isUntouched(before, stat) : before === stat;
  if (found && isStill) return now - found.since;
  look.found = { stat, since: now, isUnexplained: false };
  return 0;
}
