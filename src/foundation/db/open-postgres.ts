/**
 * Opens a PostgreSQL database: one connection that writes, and some that read committed data.
 *
 * Promise: a commit is as durable as the server's `synchronous_commit` makes it. A newer database, one that cannot be
 * reached, and one that refuses berth's login are refused with a line that says so.
 */
import { HandleEmptyInListsPlugin, Kysely, replaceWithNoncontingentExpression, sql } from 'kysely';
import { migrate } from './migrate.ts';
import { migrations } from './migrations/index.ts';
import type { Database, OpenOptions, Reads } from './database.ts';
import { shownPlace } from '../base/database-place.ts';
import { BerthPostgresDialect, poolOf } from './postgres.ts';
import { explained, refuseUnsuitable } from './postgres-server.ts';
import { reserveBeside } from './reserve.ts';
import type { Tables } from './schema.ts';

/** How many reads run at once. Further ones wait for their turn. */
const READERS = 8;

/** @throws {OperatorError} when the database cannot be reached or used. */
export async function openPostgres(
  url: string,
  { known = migrations, reserveBeside: file, isEager = false, isPatient = false }: OpenOptions = {},
): Promise<Database> {
  const db = connectionsTo(url, 1, 'berth', isPatient);
  const reads = connectionsTo(url, READERS, 'berth reads', isPatient);
  const schema = connectionsTo(url, 1, 'berth schema', true);
  const close = async (): Promise<void> => {
    await Promise.all([db.destroy(), reads.destroy()]);
  };
  try {
    await refuseUnsuitable(db, url);
    await migrate({ db: schema, name: shownPlace(url) }, known);
    const makeOne = (): Promise<unknown> => sql`select 1`.execute(reads);
    if (isEager) await Promise.all(Array.from({ length: READERS }, makeOne));
  } catch (error) {
    await close();
    throw explained(error, url);
  } finally {
    await schema.destroy();
  }
  const reserve = file === undefined ? NO_RESERVE : reserveBeside(file);
  return { db, reads, reserve, emptyLog: async () => undefined, close };
}

export async function openPostgresReads(url: string): Promise<Reads> {
  const reads = connectionsTo(url, 1, 'berth reads');
  return { reads, close: () => reads.destroy() };
}

const NO_RESERVE = { release: () => undefined, refill: async () => undefined };

function connectionsTo(url: string, max: number, name: string, isPatient = false): Kysely<Tables> {
  return new Kysely<Tables>({
    dialect: new BerthPostgresDialect(poolOf(url, { max, name, ...(isPatient && { timeoutMs: 0 }) })),
    // PostgreSQL does not accept `in ()`, which SQLite does.
    plugins: [new HandleEmptyInListsPlugin({ strategy: replaceWithNoncontingentExpression })],
  });
}
