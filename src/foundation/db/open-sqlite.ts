/**
 * Opens an SQLite file: one connection that writes, and one that reads committed data and never waits for a lock.
 *
 * Promise: a commit is on the disk when it returns (WAL with `synchronous=FULL`). The file, and the files that SQLite
 * puts beside it, have mode 0600. A damaged or newer database is refused with a line that says so, and never replaced
 * by a new one.
 */
import { readdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { errorMessage, OperatorError } from '../base/errors.ts';
import { isThere, makePrivate } from '../base/files.ts';
import { copyDatabase } from './copy.ts';
import { damaged, refuseDamaged, refuseDamagedLog } from './damage.ts';
import { migrate } from './migrate.ts';
import { migrations } from './migrations/index.ts';
import type { Database, OpenOptions, Reads } from './database.ts';
import { reserveBeside } from './reserve.ts';
import { queriesOn } from './sqlite.ts';

/**
 * Opens the SQLite file, creates it if there is none, and brings its schema up to date.
 * @throws {OperatorError} when it is damaged, not a database, of a newer version, or cannot be copied before a
 * migration.
 */
export async function openSqlite(
  file: string,
  { check = false, known = migrations }: OpenOptions = {},
): Promise<Database> {
  let writer: Sqlite.Database | undefined;
  try {
    preparePlace(file);
    refuseDamagedLog(file);
    writer = connect(file);
    if (check) refuseDamaged(writer, file);
    writer.pragma('journal_mode = wal');
    writer.pragma('synchronous = full');
    writer.pragma('foreign_keys = on');
    writer.pragma('secure_delete = on'); // what is deleted holds secrets
    const db = queriesOn(writer);
    const sqlite = writer;
    await migrate({ db, name: file, beforeChange: (next) => keepCopy(sqlite, file, next) }, known);
    const reader = connect(file, { readonly: true });
    return {
      db,
      reads: queriesOn(reader),
      reserve: reserveBeside(file),
      // Runs between transactions, because SQLite refuses a checkpoint inside one.
      emptyLog: () => db.connection().execute(async () => void sqlite.pragma('wal_checkpoint(truncate)')),
      // The last connection to close writes the log back into the file.
      async close() {
        reader.close();
        sqlite.close();
      },
    };
  } catch (error) {
    writer?.close();
    if (error instanceof Sqlite.SqliteError && /CORRUPT|NOTADB/.test(error.code)) {
      throw damaged(file, error.message, { cause: error });
    }
    throw error;
  }
}

/** Opens a connection that only reads. Each thread needs its own. */
export function openSqliteReads(file: string): Reads {
  const sqlite = connect(file, { readonly: true });
  return { reads: queriesOn(sqlite), close: async () => void sqlite.close() };
}

function connect(file: string, options: Sqlite.Options = {}): Sqlite.Database {
  // SQLite's own timeout would block the thread, so the dialect waits instead.
  const sqlite = new Sqlite(file, { timeout: 0, ...options });
  sqlite.pragma('temp_store = memory');
  sqlite.pragma('cache_size = -4000');
  return sqlite;
}

/**
 * Makes the database private. SQLite gives its WAL and index the same permissions, so they must be right before it is
 * opened.
 */
function preparePlace(file: string): void {
  makePrivate(file);
  // A write-ahead log without its database means that somebody moved or removed the database alone.
  if (isThere(`${file}-wal`) && isEmpty(file)) {
    throw new OperatorError(`${file} is missing but ${file}-wal is there: put the database back, or move the log away`);
  }
}

function isEmpty(file: string): boolean {
  const sqlite = new Sqlite(file, { readonly: true });
  try {
    return sqlite.pragma('schema_version', { simple: true }) === 0;
  } finally {
    sqlite.close();
  }
}

/** Copies the database to `<file>.before-<migration>`. Only the latest copy is kept. */
async function keepCopy(sqlite: Sqlite.Database, file: string, next: string): Promise<void> {
  const copy = `${file}.before-${next}`;
  try {
    await copyDatabase(sqlite, copy);
  } catch (error) {
    throw new OperatorError(
      `${file} has to be migrated, and the copy that is made first failed (${errorMessage(error)}): make room in ${dirname(file)}; nothing was changed`,
      { cause: error },
    );
  }
  for (const name of readdirSync(dirname(file))) {
    const isCopy = name.startsWith(`${basename(file)}.before-`) && /\.before-\d{3}-[\w-]+$/.test(name);
    if (isCopy && name !== basename(copy)) rmSync(join(dirname(file), name));
  }
}
