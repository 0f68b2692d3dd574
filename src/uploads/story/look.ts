/**
 * A look compares a path with its row. It speaks for the disk, and only of what no operation of the log explains: an
 * administrator's copy, a file that was removed by hand, a disagreement that `apply.ts` met.
 */
import { bytesOf, type FilePath, pathOf } from '../file-path.ts';
import { type FileRow, isKnownByName, type Placement } from '../record/files.ts';
import { type FileStat, fileStat, isCopy, isFileOf, isSame, UNSEEN } from '../record/file-stat.ts';
import { isSynced, type Look } from './agenda.ts';
import { isUnseen } from './lost.ts';
import type { DirectoryInTransaction, Found } from './directory.ts';
import type { TrackedFile } from './operations.ts';

/** How long a file has to stay as it is, in ms. */
export const REST_MS = 2000;

/** How long a file has to be missing before its row goes, in ms: a move is two events. */
const GONE_MS = 3000;

/** Between looks while the disk is away, in ms. */
const AWAY_MS = 10_000;

export type LookOutcome =
  | 'settled'
  /** Look again then. */
  | { readonly again: number }
  /** The log has to be heard, and the kernel to say whether anybody writes the file. */
  | { readonly wait: 'explanation' }
  | { readonly wait: 'sync' };

/** @param file what the story knows of that path. */
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
  if (row && isSame(row, stat) && row.inode >= 0) return known(row, stat, directory);
  if (row && isUnseen(row, stat, true)) {
    if (row.state === 'waiting' && !isSynced(look, stat)) return { wait: 'sync' };
    await directory.files.update(row, stat);
    return known(row, stat, directory);
  }
  look.wasSet ||= file?.wasSet === true;
  const wasSet = look.wasSet && row !== undefined && row.mtime !== UNSEEN && row.inode === stat.inode;
  if (row && (wasSet || isCopy(row, stat))) {
    const isResized = row.size_bytes !== stat.size_bytes;
    if (isResized && !look.isUnexplained) return { wait: 'explanation' };
    if (!isResized || !endingOf(path, found, stat, directory)) {
      await directory.files.update(row, stat);
      return known(row, stat, directory);
    }
  }
  const placement = await directory.files.placementOf(stat);
  const isNew = placement?.recorded === 0;
  if (isNew && isSame(placement, stat)) return placed(look, stat, { placement, row }, directory);
  if (!look.isUnexplained) return { wait: 'explanation' };
  // Its end will be heard, unless that line was lost.
  if (file?.isHeld(stat.inode)) return { again: REST_MS };
  // A client may have set its times.
  if (isNew && look.wasSet && placement.size_bytes === stat.size_bytes)
    return placed(look, stat, { placement, row }, directory);
  return (await elsewhere(look, stat, row, directory)) ?? unexplained(look, found, stat, row, stillFor, directory);
}

/** Nothing is there, and a row says that something is. */
async function missing(
  look: Look,
  row: FileRow,
  stillFor: number,
  directory: DirectoryInTransaction,
): Promise<LookOutcome> {
  if (stillFor < GONE_MS) return { again: GONE_MS - stillFor };
  if (!directory.world.isDiskThere()) return { again: AWAY_MS };
  if (!look.isUnexplained) return { wait: 'explanation' };
  const { now } = directory.world;
  // Its file was never seen, and may be where the log does not tell.
  if (row.mtime === UNSEEN) directory.requests.compare();
  await directory.record({ event: 'removed', path: look.path, at: now, bytes: row.size_bytes });
  await directory.forget(row);
  return 'settled';
}

/** The file is as its row has it. One that waits for a session that is over is announced. */
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

/** It came by HTTPS: what the API has put there is recorded, and no upload; what came by a link is one. */
async function placed(
  look: Look,
  stat: FileStat,
  { placement, row }: { readonly placement: Placement; readonly row: FileRow | undefined },
  directory: DirectoryInTransaction,
): Promise<LookOutcome> {
  const { files, world } = directory;
  const { path } = look;
  const values = { ...stat, path: bytesOf(path), uploaded_at: world.now, session_pid: null };
  if (placement.via === null) {
    await files.removePlacement(stat);
    await files.put({ ...values, state: 'placed', source: 'disk' }, row);
    return 'settled';
  }
  if (!isSynced(look, stat)) return { wait: 'sync' };
  await files.keepPlacement(stat);
  // Known as well as what the log tells of: an older upload of that name is not taken for it.
  const written = await files.put({ ...values, state: directory.arrivalState, source: 'log' }, row);
  const byLink = { address: placement.address ?? '' };
  await directory.arrived({ path, at: world.now, bytes: stat.size_bytes, byLink }, written);
  return 'settled';
}

/** The file is known under another name, or its row went before it was seen here. */
async function elsewhere(
  look: Look,
  stat: FileStat,
  row: FileRow | undefined,
  directory: DirectoryInTransaction,
): Promise<LookOutcome | undefined> {
  const { files, world, row: of } = directory;
  const { path } = look;
  const twin = await twinOf(stat, row, directory);
  if (twin) {
    const isFinal = twin.state === 'waiting' && !world.isTemporary(path);
    if (isFinal && !isSynced(look, stat)) return { wait: 'sync' };
    if (row) await directory.forget(row);
    const about = { path, from: pathOf(twin.path), at: world.now, bytes: stat.size_bytes };
    const values = isFinal ? { state: directory.arrivalState, uploaded_at: world.now, session_pid: null } : {};
    const written = await files.update(twin, { ...stat, ...values, path: bytesOf(path) });
    if (isFinal) await directory.arrived(about, written);
    else if (isKnownByName(twin)) await directory.record({ ...about, event: 'renamed' });
    return 'settled';
  }
  const removed = world.lost.rowOf(of.id, stat);
  if (!removed) return undefined;
  if (row) await directory.forget(row);
  directory.found.push(removed);
  const { id, state, uploaded_at, source, session_pid } = removed;
  await files.put({ ...stat, id, state, uploaded_at, source, session_pid, path: bytesOf(path) }, undefined);
  return 'settled';
}

/** The row of that file under a name that the file no longer has. */
async function twinOf(
  stat: FileStat,
  own: FileRow | undefined,
  directory: DirectoryInTransaction,
): Promise<FileRow | undefined> {
  for (const row of await directory.files.ofInode(stat)) {
    if (row.id === own?.id) continue;
    // By the log's word alone: it was announced before its file was seen.
    const isIt = isSame(row, stat) || isUnseen(row, stat);
    const there = directory.fileAt(pathOf(row.path));
    if (isIt && !(there && isFileOf(row, there))) return row;
  }
  return undefined;
}

/** Nothing explains the file: the end of an upload whose name was not known, or a file that somebody else put there. */
async function unexplained(
  look: Look,
  found: Found,
  stat: FileStat,
  row: FileRow | undefined,
  stillFor: number,
  directory: DirectoryInTransaction,
): Promise<LookOutcome> {
  const { world, files } = directory;
  const { path } = look;
  const age = world.now / 1000 - found.ctimeMs;
  const isOld = age >= REST_MS && age < 1e12;
  if (stillFor < REST_MS && !isOld) return { again: REST_MS - stillFor };
  if (look.isLost || world.isDoubted(found.ctimeMs * 1000)) return unproven(path, stat, row, directory);
  if (!isSynced(look, stat)) return { wait: 'sync' };
  const end = endingOf(path, found, stat, directory);
  if (end) directory.matched.push(end);
  const pid = end?.by.pid ?? world.pids()[0];
  const isWaiting = world.isTemporary(path) && pid !== undefined && world.pids().includes(pid);
  const uploaded_at = end?.at ?? world.now;
  const values = { ...stat, path: bytesOf(path), uploaded_at, source: end ? 'log' : 'disk' } as const;
  if (end && !end.isComplete) {
    await files.put({ ...values, state: 'partial', session_pid: null }, row);
    await directory.record({ path, at: end.at, by: end.by, bytes: stat.size_bytes, event: 'upload-dropped' });
  } else if (isWaiting) {
    await files.put({ ...values, state: 'waiting', session_pid: pid }, row);
    directory.requests.waits(pid, path);
  } else {
    const written = await files.put({ ...values, state: directory.arrivalState, session_pid: null }, row);
    const openedAt = end?.openedAt;
    await directory.arrived({ path, at: uploaded_at, by: end?.by, openedAt, bytes: stat.size_bytes }, written);
  }
  return 'settled';
}

/** It may be whole, and nobody knows: a client resumes it, or an operator decides. */
async function unproven(
  path: FilePath,
  stat: FileStat,
  row: FileRow | undefined,
  directory: DirectoryInTransaction,
): Promise<LookOutcome> {
  const at = directory.world.now;
  const values = { state: 'partial', uploaded_at: at, source: 'disk', session_pid: null } as const;
  await directory.files.put({ ...stat, ...values, path: bytesOf(path) }, row);
  await directory.record({ event: 'upload-dropped', path, at, bytes: stat.size_bytes });
  return 'settled';
}

/** The upload whose file had no name when it ended, if this may be it. */
function endingOf(path: FilePath, found: Found, stat: FileStat, { world, row, matched }: DirectoryInTransaction) {
  return world.lost.endingOf(row.id, path, stat, found.ctimeMs * 1000, matched);
}

/** How long looks have seen the same, in ms. */
function timeSince(look: Look, stat: FileStat | undefined, now: number): number {
  const before = look.still?.stat;
  const isStill = look.still && (before && stat ? isSame(before, stat) : before === stat);
  if (!look.still || !isStill) {
    look.still = { stat, since: now };
    look.isUnexplained = false;
  }
  return now - look.still.since;
}
