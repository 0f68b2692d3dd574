/** What differs when several machines share the database, as with PostgreSQL. */
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import type { Clock, Micros } from '../base/clock.ts';
import { isPostgres } from './dialect.ts';
import type { Tables } from './schema.ts';

/** Whether other machines may write to the database, too. */
export function isShared(db: Kysely<Tables>): boolean {
  return isPostgres(db);
}

/**
 * The present time, for comparing with times in rows. When several machines share the database it is the database's time, since their
 * clocks may differ; otherwise `now`, this machine's.
 */
export function present(db: Kysely<Tables>, now: Micros): RawBuilder<Micros> {
  return isShared(db) ? serverTime : sql<Micros>`${now}`;
}

/** Like `present`, but as a value. */
export async function presentTime(db: Kysely<Tables>, clock: Clock): Promise<Micros> {
  if (!isShared(db)) return clock.now();
  const { rows } = await sql<{ now: Micros }>`select ${serverTime} as now`.execute(db);
  return rows[0]?.now ?? clock.now();
}

/** µs since 1970 by PostgreSQL's clock, which all nodes share. */
export const serverTime = sql<Micros>`(extract(epoch from clock_timestamp()) * 1000000)::bigint`;

/**
 * The uid for a new principal: one more than the highest, from `first` on. On a shared database it comes from an
 * identity column (migration 006), so that machines that insert at the same time do not wait for each other.
 */
export function nextUid(db: Kysely<Tables>, first: number): RawBuilder<number> {
  if (isShared(db)) return sql`default`;
  return sql`(select coalesce(max(uid), ${first - 1}) + 1 from principals)`;
}

/** The new value for a column with the latest time of an event: another node may have written a later one. */
export function latest(db: Kysely<Tables>, column: string, at: Micros): RawBuilder<Micros> {
  return isShared(db) ? sql`greatest(${sql.ref(column)}, ${at}::bigint)` : sql`${at}`;
}

/**
 * Takes the lock of that name among the machines. It is held until it is released, or until the connection ends, as it does when the
 * process dies. The lock belongs to the writing connection, not to a transaction.
 * @returns whether this machine holds it now, rather than another.
 */
export async function hold(db: Kysely<Tables>, name: string): Promise<boolean> {
  if (!isShared(db)) return true;
  const { rows } = await sql<{ held: boolean }>`select pg_try_advisory_lock(${lockKey(name)}) as held`.execute(db);
  return rows[0]?.held === true;
}

export async function release(db: Kysely<Tables>, name: string): Promise<void> {
  if (isShared(db)) await sql`select pg_advisory_unlock(${lockKey(name)})`.execute(db);
}

/** Whether a session holds that lock. */
export function isHeld(lock: RawBuilder<string>): RawBuilder<boolean> {
  return sql<boolean>`exists (select from pg_locks where ${ofLock(lock)})`;
}

/** Ends the session that holds a lock. Its process may have died without the server's knowledge. */
export async function endHolder(db: Kysely<Tables>, lock: string): Promise<void> {
  await sql`select pg_terminate_backend(pid) from pg_locks where ${ofLock(lock)}`.execute(db);
}

/** PostgreSQL's number for a lock with that name. */
function lockKey(name: string | RawBuilder<string>): RawBuilder<unknown> {
  return sql`hashtextextended((${name})::text, 0)`;
}

/** pg_locks shows a key of 64 bits as two halves (PostgreSQL's manual, "pg_locks"). */
function ofLock(lock: string | RawBuilder<string>): RawBuilder<boolean> {
  return sql`locktype = 'advisory' and objsubid = 1 and granted
    and database = (select oid from pg_database where datname = current_database())
    and (classid::bigint << 32 | objid::bigint) = ${lockKey(lock)}`;
}

/**
 * Skips `count` uids.
 * @param username the username of a placeholder for the skipped uids (SQLite only).
 */
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
