/**
 * Opens an SQLite file: one connection that writes, and one that reads what is committed and waits for nobody.
 *
 * Promises: a commit is on the disk when it returns (WAL with `synchronous=FULL`); the file and what SQLite puts
 * beside it are 0600; a damaged database or one of a newer berth is refused with a line that says so, and never
 * replaced by a fresh one.
 */
import { closeSync, constants, existsSync, fchmodSync, openSync, readdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { errorMessage, OperatorError } from '../errors.ts';
import { copyDatabase } from './copy.ts';
import { damaged, refuseDamaged, refuseDamagedLog } from './damage.ts';
import { migrate } from './migrate.ts';
import { migrations } from './migrations/index.ts';
import type { Database, OpenOptions, Reads } from './open.ts';
import { reserveBeside } from './reserve.ts';
import { queriesOn } from './sqlite.ts';

/**
 * Opens the SQLite file, making it when there is none, and brings its schema up to date.
 * @throws {OperatorError} when it is damaged, not a database, of a newer version, or cannot be copied before a migration.
 */
export async function openSqlite(
  file: string,
  { check = false, known = migrations }: OpenOptions = {},
): Promise<Database> {
  let writer: Sqlite.Database | undefined;
  try {
    makePrivate(file);
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
      // In turn with transactions, in which SQLite refuses it.
      emptyLog: () => db.connection().execute(async () => void sqlite.pragma('wal_checkpoint(truncate)')),
      // The last one takes the log into the file.
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

/** A connection that only reads; a thread needs one of its own. */
export function openSqliteReads(file: string): Reads {
  const sqlite = connect(file, { readonly: true });
  return { reads: queriesOn(sqlite), close: async () => void sqlite.close() };
}

function connect(file: string, options: Sqlite.Options = {}): Sqlite.Database {
  // No timeout of SQLite's own, which would stop the thread: the dialect waits.
  const sqlite = new Sqlite(file, { timeout: 0, ...options });
  sqlite.pragma('temp_store = memory');
  sqlite.pragma('cache_size = -4000');
  return sqlite;
}

/** SQLite gives its WAL and index the permissions of the database, so these must be right before it is opened. */
function makePrivate(file: string): void {
  const fd = openSync(file, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
  try {
    fchmodSync(fd, 0o600);
  } finally {
    closeSync(fd);
  }
  // A write-ahead log without its database means that somebody moved or removed the database alone.
  if (existsSync(`${file}-wal`) && isEmpty(file)) {
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

/** The copy is `<file>.before-<migration>`; the latest one is kept. */
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
