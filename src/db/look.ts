/** A read-only view of a database, which may be damaged or newer: nothing is migrated, mended or written. */
import Sqlite from 'better-sqlite3';
import type { Kysely } from 'kysely';
import { firstDamage } from './damage.ts';
import { executed } from './migrate.ts';
import { migrations } from './migrations/index.ts';
import { openReads } from './open.ts';
import { isPostgresUrl } from './place.ts';
import type { Tables } from './schema.ts';
import { queriesOn } from './sqlite.ts';

export interface Look extends AsyncDisposable {
  readonly db: Kysely<Tables>;
  /** The migrations that it lacks, and those that this berth does not know. */
  schema(): Promise<{ readonly missing: string[]; readonly unknown: string[] }>;
  /** SQLite: reads all of it. What is wrong first, if anything is. */
  damage(): string | undefined;
}

/** @throws the database's error when there is none, or it cannot be read. */
export async function lookAt(place: string): Promise<Look> {
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

function viewOf(db: Kysely<Tables>): Pick<Look, 'db' | 'schema'> {
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
