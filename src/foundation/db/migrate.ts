/**
 * Brings a schema up to date: only forward, one migration at a time, each in its own transaction, so that a crash
 * leaves the schema as it was before the current migration. Processes that start at the same time migrate once.
 */
import { type Kysely, sql } from 'kysely';
import { DEFAULT_MIGRATION_LOCK_TABLE, type Migration, MIGRATION_LOCK_ID, Migrator } from 'kysely/migration';
import { errorCode, errorMessage, OperatorError } from '../base/errors.ts';

/** Migrations by name, applied in the order of their names. */
export type Migrations = Readonly<Record<string, Migration>>;

export interface Migrated<T> {
  readonly db: Kysely<T>;
  /** The database's name in messages. */
  readonly name: string;
  /** Called before an existing schema is changed, with the name of the first migration. */
  readonly beforeChange?: (next: string) => Promise<void>;
}

/**
 * @throws {OperatorError} when the database is of a newer version, which leaves it unchanged; and any error of
 * `beforeChange`.
 */
export async function migrate<T>({ db, name, beforeChange }: Migrated<T>, known: Migrations): Promise<void> {
  const before = await executed(db);
  const newer = before.find((each) => !(each in known));
  if (newer !== undefined) throw tooNew(name, newer);
  const next = Object.keys(known).toSorted()[before.length];
  if (next === undefined) return;
  if (before.length > 0) await beforeChange?.(next);
  await withMigrationLock(db, async (connection) => {
    const migrator = new Migrator({ db: connection, provider: { getMigrations: async () => ({ ...known }) } });
    for (;;) {
      const { error, results } = await migrator.migrateUp();
      // A newer version has migrated the database further meanwhile.
      if (error && /previously executed migration .* is missing/.test(errorMessage(error))) {
        throw tooNew(name, 'unknown');
      }
      if (error) throw error instanceof Error ? error : new Error(errorMessage(error));
      if (!results || results.length === 0) return;
    }
  });
}

/**
 * Holds the migrator's own lock around `migrateUp`, which takes it again on the same connection. The migrator looks for its tables before
 * it takes the lock, and PostgreSQL answers that with an error when a column is dropped meanwhile.
 */
async function withMigrationLock<T>(db: Kysely<T>, work: (connection: Kysely<T>) => Promise<void>): Promise<void> {
  await db.connection().execute(async (connection) => {
    const { adapter } = connection.getExecutor();
    await adapter.acquireMigrationLock(connection, LOCK);
    try {
      await work(connection);
    } finally {
      await adapter.releaseMigrationLock(connection, LOCK);
    }
  });
}

const LOCK = { lockTable: DEFAULT_MIGRATION_LOCK_TABLE, lockRowId: MIGRATION_LOCK_ID };

/** The migrations that a database has had, in order; none for an empty one. Only reads. */
export async function executed<T>(db: Kysely<T>): Promise<string[]> {
  try {
    const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db);
    return rows.map(({ name }) => name);
  } catch (error) {
    if (errorCode(error) === UNDEFINED_TABLE || /no such table/.test(errorMessage(error))) return [];
    throw error;
  }
}

/** PostgreSQL's error code for a missing table. Its messages may be in any language. */
const UNDEFINED_TABLE = '42P01';

function tooNew(name: string, migration: string): OperatorError {
  return new OperatorError(
    `${name} was written by a newer berth (migration ${migration}): install that version, or restore a backup`,
  );
}
