/**
 * One permanent connection to PostgreSQL. It holds a lock, which the server releases when the connection ends for any
 * reason, and listens to notifications on channels.
 */
import { Kysely, sql } from 'kysely';
import { DatabaseUnavailable } from './away.ts';
import { BerthPostgresDialect, orAway, poolOf } from './postgres.ts';
import type { Tables } from './schema.ts';
import { hold } from './shared.ts';

/** How long a statement may take. After that the connection counts as broken. */
const QUERY_TIMEOUT_MS = 3000;

export interface DatabaseSessionOptions {
  /** The connection's name in pg_stat_activity. */
  readonly name: string;
  /** The lock to take. */
  readonly lock: string;
  readonly channels: readonly string[];
  onMessage(channel: string, message: string): void;
  /** Called when the connection has ended without `close`. */
  onLost(): void;
}

export interface DatabaseSession {
  /** Queries on this connection. If the server crashes, commits and notifications made here may be lost. */
  readonly db: Kysely<Tables>;
  notify(channel: string, message: string): Promise<void>;
  close(): Promise<void>;
}

/** @returns undefined when another session has the lock. @throws {DatabaseUnavailable} when the server cannot be reached. */
export async function openDatabaseSession(
  url: string,
  options: DatabaseSessionOptions,
): Promise<DatabaseSession | undefined> {
  let hasBegun = false;
  const connected = (): void => {
    // For a waiting statement the pool would open another connection, with neither the lock nor the channels, which nothing would close.
    if (hasBegun) throw new DatabaseUnavailable(new Error('the session has ended'));
    hasBegun = true;
  };
  const pool = poolOf(url, { max: 1, name: options.name, timeoutMs: QUERY_TIMEOUT_MS, connected });
  const db = new Kysely<Tables>({ dialect: new BerthPostgresDialect(pool) });
  let isOpen = true;
  try {
    const client = await pool.connect().catch(orAway);
    client.on('notification', ({ channel, payload = '' }) => options.onMessage(channel, payload));
    client.on('error', () => undefined);
    client.on('end', () => {
      if (isOpen) options.onLost();
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
    async notify(channel, message) {
      await sql`select pg_notify(${channel}, ${message})`.execute(db);
    },
    async close() {
      isOpen = false;
      await db.destroy();
    },
  };
}

/** Identifies the database's present history. It changes when a standby takes over or a backup is restored. */
export async function historyOf(db: Kysely<Tables>): Promise<string> {
  const { rows } = await sql<{ name: string }>`
    select left(pg_walfile_name(pg_current_wal_lsn()), 8) || '-' || oid as name
    from pg_database where datname = current_database()`.execute(db);
  return rows[0]?.name ?? '';
}
