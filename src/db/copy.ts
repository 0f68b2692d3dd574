/** Consistent copies of a database that others may write to meanwhile. A copy is complete before it gets its name. */
import { closeSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import Sqlite from 'better-sqlite3';
import { sync } from '../sync.ts';

/**
 * Writes what is committed in `sqlite` to `target`, 0600, in place of any file there. On the disk when it returns; when it
 * fails, `target` is as it was and nothing else is left.
 * @throws the system's or SQLite's error: `ENOSPC`, `SQLITE_FULL`.
 */
export async function copyDatabase(sqlite: Sqlite.Database, target: string): Promise<void> {
  const fresh = `${target}.${process.pid}.new`;
  try {
    // SQLite would make it readable for all.
    closeSync(openSync(fresh, 'w', 0o600));
    // Row by row: pages that are free may still hold what an earlier berth deleted.
    sqlite.prepare('vacuum into ?').run(fresh);
    sync(fresh);
    renameSync(fresh, target);
    sync(dirname(target));
  } finally {
    for (const file of [fresh, `${fresh}-journal`, `${fresh}-wal`, `${fresh}-shm`]) rmSync(file, { force: true });
  }
}

/** The same for a database of any version, which is only read. */
export async function copyDatabaseFile(file: string, target: string): Promise<void> {
  const sqlite = new Sqlite(file, { readonly: true, fileMustExist: true });
  try {
    await copyDatabase(sqlite, target);
  } finally {
    sqlite.close();
  }
}
