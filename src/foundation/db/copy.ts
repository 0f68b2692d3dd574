/** Makes consistent copies of a database while others may write to it. A copy is complete before it gets its name. */
import { closeSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import Sqlite from 'better-sqlite3';
import { sync } from '../base/files.ts';

/**
 * Writes the committed state of `sqlite` to `target` with mode 0600, replacing any file. The copy is on the disk when
 * this resolves. After a failure, `target` is as before and nothing else is left.
 * @throws the system's or SQLite's error: `ENOSPC`, `SQLITE_FULL`.
 */
export async function copyDatabase(sqlite: Sqlite.Database, target: string): Promise<void> {
  const fresh = `${target}.${process.pid}.new`;
  try {
    // Made first, since SQLite would create it readable for everybody.
    closeSync(openSync(fresh, 'w', 0o600));
    // `vacuum into` copies row by row: free pages may still hold data that an older version deleted.
    sqlite.prepare('vacuum into ?').run(fresh);
    sync(fresh);
    renameSync(fresh, target);
    sync(dirname(target));
  } finally {
    for (const file of [fresh, `${fresh}-journal`, `${fresh}-wal`, `${fresh}-shm`]) rmSync(file, { force: true });
  }
}

/** Like `copyDatabase`, for a file of any version, which is only read. */
export async function copyDatabaseFile(file: string, target: string): Promise<void> {
  const sqlite = new Sqlite(file, { readonly: true, fileMustExist: true });
  try {
    await copyDatabase(sqlite, target);
  } finally {
    sqlite.close();
  }
}
