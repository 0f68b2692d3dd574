/**
 * Applies the log's operations to the rows of a directory, in order. Every operation checks its row against the disk.
 * Where they disagree, the row follows the log, and a look (`look.ts`) is planned for the paths.
 */
import { pathOf } from '../file-path.ts';
import { isFileOf, isSame, isUnchanged, STALE_MTIME } from '../record/file-stat.ts';
import { applyMove } from './apply-move.ts';
import { applyPut } from './apply-put.ts';
import type { DirectoryInTransaction } from './directory.ts';
import type { Task } from './jobs.ts';
import type { End, Remove } from './operations.ts';
import { asFound, by, type Outcome, SOON_MS, STEP } from './outcome.ts';

export function apply(task: Task, directory: DirectoryInTransaction): Promise<Outcome> {
  const { operation } = task;
  switch (operation.kind) {
    case 'put':
      return applyPut(operation, task, directory);
    case 'move':
      return applyMove(operation, task, directory);
    case 'remove':
      return applyRemove(operation, directory);
    case 'end':
      return endSession(operation, directory);
  }
}

async function applyRemove({ path, ...removal }: Remove, directory: DirectoryInTransaction): Promise<Outcome> {
  const row = await directory.files.at(path);
  if (!row) return 'done';
  const stat = directory.fileAt(path);
  if (stat && isSame(row, stat)) {
    directory.requests.look(path, SOON_MS);
    return 'done';
  }
  if (row.state !== 'removed')
    await directory.record({ ...by(removal), event: 'removed', path, bytes: row.size_bytes, reason: removal.reason });
  await directory.forget(row);
  return 'done';
}

/** Announces the files that the session left under temporary names. */
async function endSession(operation: End, directory: DirectoryInTransaction): Promise<Outcome> {
  const { files, requests } = directory;
  const rows = await files.waitingFor(operation.by.pid, STEP);
  let announced = 0;
  for (const row of rows) {
    const path = pathOf(row.path);
    // The log has cut off a new name: a comparison with the disk finds that, and announces the file there.
    const found = operation.hasLostName ? directory.fileAt(path) : row;
    if (!found || !isFileOf(row, found)) {
      requests.look(path, SOON_MS);
      requests.compare();
      continue;
    }
    // Another session writes the file, and its close announces it.
    if (directory.world.trackedAt(path)?.hasOpenWriters) continue;
    // The row was written from the log alone. A look syncs the file and announces it.
    if (row.mtime === STALE_MTIME && directory.fileAt(path)) {
      requests.look(path, SOON_MS);
      continue;
    }
    announced += 1;
    // A look may have found the file after the session's last line.
    const at = Math.max(operation.at, row.uploaded_at);
    const stat = directory.fileAt(path);
    const values = {
      ...asFound(row, stat, directory.world.trackedAt(path)),
      state: directory.arrivalState,
      uploaded_at: at,
      session_pid: null,
    };
    const about = { ...by(operation), at, path, bytes: row.size_bytes };
    const written = await files.update(row, values);
    await directory.arrived(about, written);
    if (!stat || !isUnchanged(written, stat)) requests.look(path, SOON_MS);
  }
  return rows.length === STEP && announced > 0 ? { again: '' } : 'done';
}
