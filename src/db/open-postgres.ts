/**
 * Opens a PostgreSQL database: one connection that writes, and some that read what is committed.
 *
 * Promises: a commit is as safe as the server's `synchronous_commit` makes it; a database of a newer berth, one that cannot
 * be reached, and one that does not let berth in are refused with a line that says so.
 */
import { HandleEmptyInListsPlugin, Kysely, replaceWithNoncontingentExpression, sql } from 'kysely';
import { migrate } from './migrate.ts';
import { migrations } from './migrations/index.ts';
import type { Database, OpenOptions, Reads } from './open.ts';
import { shownPlace } from './place.ts';
import { BerthPostgresDialect, poolOf } from './postgres.ts';
import { explained, refuseUnsuitable } from './postgres-server.ts';
import { reserveBeside } from './reserve.ts';
import type { Tables } from './schema.ts';

/** Requests that read at once; more wait for their turn. */
const READERS = 8;

/** @throws {OperatorError} when it cannot be reached or used. */
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
    dialect: new BerthPostgresDialect(poolOf(url, { max, name, ...(isPatient && { patience: 0 }) })),
    // `in ()`, which SQLite knows.
    plugins: [new HandleEmptyInListsPlugin({ strategy: replaceWithNoncontingentExpression })],
  });
}
