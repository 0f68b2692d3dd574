/** A read-only view of a database, which may be damaged or newer: nothing is migrated, repaired or written. */
import Sqlite from 'better-sqlite3';
import type { Kysely } from 'kysely';
import { firstDamage } from './damage.ts';
import { executed } from './migrate.ts';
import { migrations } from './migrations/index.ts';
import { openReads } from './open.ts';
import { isPostgresUrl } from '../base/database-place.ts';
import type { Tables } from './schema.ts';
import { queriesOn } from './sqlite.ts';

export interface Inspection extends AsyncDisposable {
  readonly db: Kysely<Tables>;
  /** The migrations that the database lacks, and those that this version does not know. */
  schema(): Promise<{ readonly missing: string[]; readonly unknown: string[] }>;
  /** SQLite: reads the whole database. Returns the first problem; undefined for none. */
  damage(): string | undefined;
}

/** @throws the database's error when the database is missing or cannot be read. */
export async function inspect(place: string): Promise<Inspection> {
  if (isPostgresUrl(place)) {
    const { reads, close } = await openReads(place);
    return { ...viewOf(reads), damage: () => undefined, [Symbol.asyncDispose]: close };
  }
  const sqlite = new Sqlite(place, { readonly: true, fileMustExist: true });
  return {
    ...viewOf(queriesOn(sqlite)),
    damage: () => firstDamage(sqlite),
    async [Symbol.asyncDispose]() {
      sqlite.close();
    },
  };
}

function viewOf(db: Kysely<Tables>): Pick<Inspection, 'db' | 'schema'> {
  return {
    db,
    async schema() {
      const had = await executed(db);
      return {
        missing: Object.keys(migrations).filter((name) => !had.includes(name)),
        unknown: had.filter((name) => !(name in migrations)),
      };
    },
  };
}
