/**
 * Brings a schema up to date: forward only, one migration at a time, each in a transaction of its own, so that a crash
 * in one leaves the schema before it. Processes that start at once do it once.
 */
import { type Kysely, sql } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { errorCode, errorMessage, OperatorError } from '../errors.ts';

/** Migrations by name; the names' order is theirs. */
export type Migrations = Readonly<Record<string, Migration>>;

export interface Migrated<T> {
  readonly db: Kysely<T>;
  /** What messages call the database. */
  readonly name: string;
  /** Called before an existing schema is changed, with the name of the first migration. */
  readonly beforeChange?: (next: string) => Promise<void>;
}

/** @throws {OperatorError} when the database is of a newer berth: it is as it was then; what `beforeChange` throws. */
export async function migrate<T>({ db, name, beforeChange }: Migrated<T>, known: Migrations): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ ...known }) } });
  const before = await executed(db);
  const newer = before.find((each) => !(each in known));
  if (newer !== undefined) throw tooNew(name, newer);
  const next = Object.keys(known).toSorted()[before.length];
  if (next === undefined) return;
  if (before.length > 0) await beforeChange?.(next);
  for (;;) {
    const { error, results } = await migrator.migrateUp();
    // Another process has migrated it further, meanwhile.
    if (error && /previously executed migration .* is missing/.test(errorMessage(error))) throw tooNew(name, 'unknown');
    if (error) throw error instanceof Error ? error : new Error(errorMessage(error));
    if (!results || results.length === 0) return;
  }
}

/** The migrations that a database has had, in their order; none for an empty one. Only reads. */
export async function executed<T>(db: Kysely<T>): Promise<string[]> {
  try {
    const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db);
    return rows.map(({ name }) => name);
  } catch (error) {
    if (errorCode(error) === UNDEFINED_TABLE || /no such table/.test(errorMessage(error))) return [];
    throw error;
  }
}

/** PostgreSQL's code, whose messages may be in any language. */
const UNDEFINED_TABLE = '42P01';

function tooNew(name: string, migration: string): OperatorError {
  return new OperatorError(
    `${name} was written by a newer berth (migration ${migration}): install that version, or restore a backup`,
  );
}
