/**
 * One connection to PostgreSQL that stays: it holds a lock which the server lets go of when the connection ends, however
 * that happens, and hears what others say on its channels.
 */
import { Kysely, type RawBuilder, sql } from 'kysely';
import { DatabaseAway } from './away.ts';
import { BerthPostgresDialect, orAway, poolOf } from './postgres.ts';
import type { Tables } from './schema.ts';
import { hold, lockKey } from './shared.ts';

/** How long a statement may take, in ms: then the connection counts as broken. */
const PATIENCE = 3000;

export interface SessionOptions {
  /** What pg_stat_activity calls it. */
  readonly name: string;
  /** The lock that it takes. */
  readonly lock: string;
  readonly channels: readonly string[];
  heard(channel: string, message: string): void;
  /** It has ended by itself. */
  lost(): void;
}

export interface Session {
  /** What is committed here may be lost when the server dies, with what was said of it. */
  readonly db: Kysely<Tables>;
  say(channel: string, message: string): Promise<void>;
  close(): Promise<void>;
}

/** @returns undefined when another session has the lock. @throws {DatabaseAway} when the server cannot be reached. */
export async function openSession(url: string, options: SessionOptions): Promise<Session | undefined> {
  let hasBegun = false;
  const connected = (): void => {
    // The pool makes another one for a statement that waits: without the lock and the channels, and nobody would close it.
    if (hasBegun) throw new DatabaseAway(new Error('the session has ended'));
    hasBegun = true;
  };
  const pool = poolOf(url, { max: 1, name: options.name, patience: PATIENCE, connected });
  const db = new Kysely<Tables>({ dialect: new BerthPostgresDialect(pool) });
  let isOpen = true;
  try {
    const client = await pool.connect().catch(orAway);
    client.on('notification', ({ channel, payload = '' }) => options.heard(channel, payload));
    client.on('error', () => undefined);
    client.on('end', () => {
      if (isOpen) options.lost();
      isOpen = false;
    });
    client.release();
    await sql`set synchronous_commit = off`.execute(db);
    if (!(await hold(db, options.lock))) {
      isOpen = false;
      await db.destroy();
      return undefined;
    }
    for (const channel of options.channels) await sql`listen ${sql.id(channel)}`.execute(db);
  } catch (error) {
    isOpen = false;
    void db.destroy().catch(() => undefined);
    throw error;
  }
  return {
    db,
    async say(channel, message) {
      await sql`select pg_notify(${channel}, ${message})`.execute(db);
    },
    async close() {
      isOpen = false;
      await db.destroy();
    },
  };
}

/** Whether some session holds that lock. */
export function isHeld(lock: RawBuilder<string>): RawBuilder<boolean> {
  return sql<boolean>`exists (select from pg_locks where ${ofLock(lock)})`;
}

/** Ends the session that holds it, whose process may have gone without the server's knowledge. */
export async function endHolder(db: Kysely<Tables>, lock: string): Promise<void> {
  await sql`select pg_terminate_backend(pid) from pg_locks where ${ofLock(lock)}`.execute(db);
}

/** Names the history that the database goes on with: another one after a standby has taken over, or a backup was restored. */
export async function historyOf(db: Kysely<Tables>): Promise<string> {
  const { rows } = await sql<{ name: string }>`
    select left(pg_walfile_name(pg_current_wal_lsn()), 8) || '-' || oid as name
    from pg_database where datname = current_database()`.execute(db);
  return rows[0]?.name ?? '';
}

/** pg_locks shows a key of 64 bits as two halves (PostgreSQL's manual, "pg_locks"). */
function ofLock(lock: string | RawBuilder<string>): RawBuilder<boolean> {
  return sql`locktype = 'advisory' and objsubid = 1 and granted
    and database = (select oid from pg_database where datname = current_database())
    and (classid::bigint << 32 | objid::bigint) = ${lockKey(lock)}`;
}
