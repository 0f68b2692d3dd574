/** Statements that an operator runs on the database behind berth's back. */
import Sqlite from 'better-sqlite3';
import type { Config } from '../../src/foundation/base/config.ts';
import { isPostgresUrl } from '../../src/foundation/base/database-place.ts';
import { psql } from './postgres.ts';

/** Runs statements that give no rows. */
export function byHand({ database }: Pick<Config, 'database'>, statements: string): void {
  if (isPostgresUrl(database)) psql(database, statements);
  else using(database, (sqlite) => sqlite.exec(statements));
}

/** The number that a query gives. */
export function numberByHand({ database }: Pick<Config, 'database'>, query: string): number {
  if (isPostgresUrl(database)) return Number(psql(database, query));
  return using(database, (sqlite) => Number(sqlite.prepare(query).pluck().get()));
}

function using<T>(file: string, work: (sqlite: Sqlite.Database) => T): T {
  const sqlite = new Sqlite(file, { fileMustExist: true });
  try {
    return work(sqlite);
  } finally {
    sqlite.close();
  }
}
