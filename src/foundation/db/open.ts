/** Opens the database that the configuration names. Nothing outside of db/ knows whether it is SQLite or PostgreSQL. */
import { sql } from 'kysely';
import { isUnavailable } from '../base/errors.ts';
import type { Database, OpenOptions, Reads } from './database.ts';
import { isPostgresUrl } from '../base/database-place.ts';

export type { Database, Reads } from './database.ts';

/**
 * Opens the database, creates it if there is none, and brings its schema up to date.
 * @param place a file, or a URL of PostgreSQL (`base/database-place.ts`).
 * @throws {OperatorError} when the database is damaged, not a database, of a newer version, cannot be copied before a
 * migration, or cannot be reached.
 */
export async function openDatabase(place: string, options: OpenOptions = {}): Promise<Database> {
  // Load only the client that is used, since each takes memory.
  if (isPostgresUrl(place)) return (await import('./open-postgres.ts')).openPostgres(place, options);
  return (await import('./open-sqlite.ts')).openSqlite(place, options);
}

/** Opens connections that only read. Each thread needs its own. */
export async function openReads(place: string): Promise<Reads> {
  if (isPostgresUrl(place)) return (await import('./open-postgres.ts')).openPostgresReads(place);
  return (await import('./open-sqlite.ts')).openSqliteReads(place);
}

/** Whether the database answers now. */
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
