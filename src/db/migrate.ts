/**
 * Brings a schema up to date: forward only, one migration at a time, each in a transaction of its own, so that a crash
 * in one leaves the schema before it. An existing database is copied first, to `<file>.before-<migration>`; the latest
 * such copy is kept.
 */
import { readdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type Sqlite from 'better-sqlite3';
import type { Kysely } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { errorMessage, OperatorError } from '../errors.ts';
import { copyDatabase } from './copy.ts';

/** Migrations by name; the names' order is theirs. */
export type Migrations = Readonly<Record<string, Migration>>;

/**
 * @param sqlite the connection that `db` uses.
 * @throws {OperatorError} when the database is of a newer berth, or there is no room for the copy: it is as it was then.
 */
export async function migrate<T>(
  { db, sqlite, file }: { db: Kysely<T>; sqlite: Sqlite.Database; file: string },
  known: Migrations,
): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ ...known }) } });
  const before = executed(sqlite);
  const newer = before.find((name) => !(name in known));
  if (newer !== undefined) throw tooNew(file, newer);
  const next = Object.keys(known).toSorted()[before.length];
  if (next === undefined) return;
  if (before.length > 0) await keepCopy(sqlite, file, next);
  for (;;) {
    const { error, results } = await migrator.migrateUp();
    // Another process has migrated it further, meanwhile.
    if (error && /previously executed migration .* is missing/.test(errorMessage(error))) throw tooNew(file, 'unknown');
    if (error) throw error instanceof Error ? error : new Error(errorMessage(error));
    if (!results || results.length === 0) return;
  }
}

/** The migrations that a database has had, in their order; none for an empty one. Only reads. */
export function executed(sqlite: Sqlite.Database): string[] {
  const table = sqlite.prepare("select 1 from sqlite_master where type = 'table' and name = 'kysely_migration'").get();
  if (table === undefined) return [];
  return sqlite.prepare<[], string>('select name from kysely_migration order by name').pluck().all();
}

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

function tooNew(file: string, migration: string): OperatorError {
  return new OperatorError(
    `${file} was written by a newer berth (migration ${migration}): install that version, or restore a backup`,
  );
}
