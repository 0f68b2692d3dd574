/**
 * Opens the database: one connection that writes, and one that reads what is committed and waits for nobody.
 *
 * Promises: a commit is on the disk when it returns (WAL with `synchronous=FULL`); the file and what SQLite puts
 * beside it are 0600; a damaged database or one of a newer berth is refused with a line that says so, and never
 * replaced by a fresh one.
 */
import { closeSync, constants, existsSync, fchmodSync, openSync } from 'node:fs';
import Sqlite from 'better-sqlite3';
import type { Kysely } from 'kysely';
import { OperatorError } from '../errors.ts';
import { damaged, refuseDamaged, refuseDamagedLog } from './damage.ts';
import { migrate, type Migrations } from './migrate.ts';
import { migrations } from './migrations/index.ts';
import { type Reserve, reserveBeside } from './reserve.ts';
import type { Tables } from './schema.ts';
import { queriesOn } from './sqlite.ts';

export interface Database {
  /** Writes, and reads that have to see their own transaction. One transaction at a time. */
  readonly db: Kysely<Tables>;
  /** Reads of what is committed. */
  readonly reads: Kysely<Tables>;
  readonly reserve: Reserve;
  /** Takes the write-ahead log into the file and empties it, unless somebody reads: it holds what was deleted, too. */
  emptyLog(): Promise<void>;
  close(): Promise<void>;
}

export interface OpenOptions {
  /** Reads all of it first, unless it is large. */
  readonly check?: boolean;
  /** The migrations to know of, for tests. */
  readonly known?: Migrations;
}

/**
 * Opens the SQLite file, making it when there is none, and brings its schema up to date.
 * @throws {OperatorError} when it is damaged, not a database, of a newer version, or cannot be copied before a migration.
 */
export async function openDatabase(
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
    await migrate({ db, sqlite: writer, file }, known);
    const reader = connect(file, { readonly: true });
    const sqlite = writer;
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
export function openReads(file: string): { readonly reads: Kysely<Tables>; close(): void } {
  const sqlite = connect(file, { readonly: true });
  return { reads: queriesOn(sqlite), close: () => void sqlite.close() };
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
