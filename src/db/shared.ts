/** What differs when several machines may work on the database, as they may on PostgreSQL. */
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import type { Clock, Micros } from '../clock.ts';
import { isPostgres } from './dialect.ts';
import type { Tables } from './schema.ts';

/** Whether other machines may write to it, too. */
export function isShared(db: Kysely<Tables>): boolean {
  return isPostgres(db);
}

/**
 * The present by which times in rows are judged: the database's own where several machines share it, since their clocks
 * may differ, else `now`, this machine's.
 */
export function present(db: Kysely<Tables>, now: Micros): RawBuilder<Micros> {
  return isShared(db) ? serverTime : sql<Micros>`${now}`;
}

/** The same, asked for. */
export async function presentTime(db: Kysely<Tables>, clock: Clock): Promise<Micros> {
  if (!isShared(db)) return clock.now();
  const { rows } = await sql<{ now: Micros }>`select ${serverTime} as now`.execute(db);
  return rows[0]?.now ?? clock.now();
}

/** µs since 1970 by PostgreSQL's clock, which all nodes share. */
export const serverTime = sql<Micros>`(extract(epoch from clock_timestamp()) * 1000000)::bigint`;

/**
 * The uid of the principal that an insert makes: one more than there was, from `first` on. Shared, it comes from an identity
 * (migration 006): machines that make principals at once do not wait for each other.
 */
export function nextUid(db: Kysely<Tables>, first: number): RawBuilder<number> {
  if (isShared(db)) return sql`default`;
  return sql`(select coalesce(max(uid), ${first - 1}) + 1 from principals)`;
}

/** What a column becomes that says when something happened last: another node may have seen it later. */
export function latest(db: Kysely<Tables>, column: string, at: Micros): RawBuilder<Micros> {
  return isShared(db) ? sql`greatest(${sql.ref(column)}, ${at}::bigint)` : sql`${at}`;
}

/**
 * Holds a name among the machines until it is released, or until the connection ends, as it does when the process dies.
 * Not for a transaction: the one connection that writes holds it.
 * @returns whether it is held now: another machine may hold it.
 */
export async function hold(db: Kysely<Tables>, name: string): Promise<boolean> {
  if (!isShared(db)) return true;
  const { rows } = await sql<{ held: boolean }>`select pg_try_advisory_lock(${lockKey(name)}) as held`.execute(db);
  return rows[0]?.held === true;
}

export async function release(db: Kysely<Tables>, name: string): Promise<void> {
  if (isShared(db)) await sql`select pg_advisory_unlock(${lockKey(name)})`.execute(db);
}

/** PostgreSQL's number for a lock of that name. */
export function lockKey(name: string | RawBuilder<string>): RawBuilder<unknown> {
  return sql`hashtextextended((${name})::text, 0)`;
}

/** Leaves out that many uids. @param username of the principal that stands for them, where one does. */
export async function skipUids(tx: Transaction<Tables>, first: number, count: number, username: string): Promise<void> {
  if (isShared(tx)) {
    const sequence = sql`pg_get_serial_sequence('principals', 'uid')`;
    await sql`select setval(${sequence}, nextval(${sequence}) + ${count}::bigint)`.execute(tx);
    return;
  }
  const { last } = await tx
    .selectFrom('principals')
    .select(({ fn }) => fn.max('uid').as('last'))
    .executeTakeFirstOrThrow();
  await tx
    .insertInto('principals')
    .values({ uid: (last ?? first - 1) + count, username })
    .execute();
}
