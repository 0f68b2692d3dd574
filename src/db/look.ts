/** A read-only view of a database, which may be damaged or newer: nothing is migrated, mended or written. */
import Sqlite from 'better-sqlite3';
import type { Kysely } from 'kysely';
import { firstDamage } from './damage.ts';
import { executed } from './migrate.ts';
import { migrations } from './migrations/index.ts';
import type { Tables } from './schema.ts';
import { queriesOn } from './sqlite.ts';

export interface Look extends AsyncDisposable {
  readonly db: Kysely<Tables>;
  /** The migrations that it lacks, and those that this berth does not know. */
  schema(): { readonly missing: string[]; readonly unknown: string[] };
  /** Reads all of it. What is wrong first, if anything is. */
  damage(): string | undefined;
}

/** @throws SQLite's error when there is no database, or it cannot be read. */
export function lookAt(file: string): Look {
  const sqlite = new Sqlite(file, { readonly: true, fileMustExist: true });
  return {
    db: queriesOn(sqlite),
    schema() {
      const had = executed(sqlite);
      return {
        missing: Object.keys(migrations).filter((name) => !had.includes(name)),
        unknown: had.filter((name) => !(name in migrations)),
      };
    },
    damage: () => firstDamage(sqlite),
    async [Symbol.asyncDispose]() {
      sqlite.close();
    },
  };
}
