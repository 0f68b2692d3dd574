/** Opens the database that a setting names, SQLite's or PostgreSQL's: the rest of berth does not know which it is. */
import { type Kysely, sql } from 'kysely';
import { isUnavailable } from './away.ts';
import type { Migrations } from './migrate.ts';
import { isPostgresUrl } from './place.ts';
import type { Reserve } from './reserve.ts';
import type { Tables } from './schema.ts';

export interface Database {
  /** Writes, and reads that have to see their own transaction. One transaction of this process at a time. */
  readonly db: Kysely<Tables>;
  /** Reads of what is committed. */
  readonly reads: Kysely<Tables>;
  readonly reserve: Reserve;
  /** SQLite: takes the write-ahead log into the file and empties it, unless somebody reads: it holds what was deleted, too. */
  emptyLog(): Promise<void>;
  close(): Promise<void>;
}

export interface Reads {
  readonly reads: Kysely<Tables>;
  close(): Promise<void>;
}

export interface OpenOptions {
  /** SQLite: reads all of it first, unless it is large. */
  readonly check?: boolean;
  /** PostgreSQL: the file beside which this machine's reserve lies; none when left out. SQLite's lies beside its own. */
  readonly reserveBeside?: string;
  /** PostgreSQL: makes all connections now. Who runs for long may have no descriptor left for one later. */
  readonly isEager?: boolean;
  /** PostgreSQL: a statement may take as long as it needs. */
  readonly isPatient?: boolean;
  /** The migrations to know of, for tests. */
  readonly known?: Migrations;
}

/**
 * Opens it, making it when there is none, and brings its schema up to date.
 * @param place a file, or a URL of PostgreSQL (`place.ts`).
 * @throws {OperatorError} when it is damaged, not a database, of a newer version, cannot be copied before a migration, or
 * cannot be reached.
 */
export async function openDatabase(place: string, options: OpenOptions = {}): Promise<Database> {
  // Each engine's client takes memory that who uses the other one need not spend.
  if (isPostgresUrl(place)) return (await import('./open-postgres.ts')).openPostgres(place, options);
  return (await import('./open-sqlite.ts')).openSqlite(place, options);
}

/** Connections that only read; a thread needs its own. */
export async function openReads(place: string): Promise<Reads> {
  if (isPostgresUrl(place)) return (await import('./open-postgres.ts')).openPostgresReads(place);
  return (await import('./open-sqlite.ts')).openSqliteReads(place);
}

/** Whether the database can be asked now. */
export async function isAnswering(place: string): Promise<boolean> {
  const { reads, close } = await openReads(place);
  try {
    await sql`select 1`.execute(reads);
    return true;
  } catch (error) {
    return !isUnavailable(error);
  } finally {
    await close();
  }
}
