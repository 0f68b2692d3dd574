/**
 * SQLite as a Kysely dialect, with three differences from Kysely's own. Transactions take the write lock when they
 * begin, because a reader that becomes a writer later can fail with SQLITE_BUSY, which no timeout waits for. A lock
 * that another process holds does not block the thread. Statements are compiled once.
 */
import { setTimeout } from 'node:timers/promises';
import type Sqlite from 'better-sqlite3';
import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  type QueryResult,
  type SelectQueryNode,
  SqliteAdapter,
  SqliteDialect,
  type SqliteDialectConfig,
  SqliteDriver,
  SqliteQueryCompiler,
} from 'kysely';
import { LRUCache } from 'lru-cache';
import { errorCode } from '../base/errors.ts';
import type { Tables } from './schema.ts';

/**
 * How many compiled statements are kept: more than the distinct queries in the code, although lists of varying length add more.
 */
const STATEMENT_LIMIT = 500;

/**
 * How long writers wait for another process (such as the CLI) to end its transaction, and how often they check. The time counts from
 * when the lock was first found held, so all waiting writers fail together instead of one after the other.
 */
const BUSY_TIMEOUT_MS = 5000;
const BUSY_POLL_MS = 5;

class ImmediateDriver extends SqliteDriver {
  readonly #sqlite: Sqlite.Database;
  readonly #lock: Lock = { since: undefined };

  constructor(config: SqliteDialectConfig, sqlite: Sqlite.Database) {
    super(config);
    this.#sqlite = sqlite;
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    return patient(await super.acquireConnection(), this.#sqlite, this.#lock);
  }

  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('begin immediate'));
  }

  /** On a full disk SQLite rolls back on its own: a second rollback would fail and hide the reason. */
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#sqlite.inTransaction) await super.rollbackTransaction(connection);
  }
}

interface Lock {
  /** Since when another process has held the lock, as far as we know. */
  since: number | undefined;
}

function patient(connection: DatabaseConnection, sqlite: Sqlite.Database, lock: Lock): DatabaseConnection {
  return {
    async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
      for (let hasWaited = false; ; hasWaited = true) {
        try {
          const result = await connection.executeQuery<R>(query);
          // A read on its own says nothing about the lock.
          if (hasWaited || sqlite.inTransaction) lock.since = undefined;
          return result;
        } catch (error) {
          // A transaction that holds the lock does not wait for it.
          if (errorCode(error) !== 'SQLITE_BUSY' || sqlite.inTransaction) throw error;
          lock.since ??= performance.now();
          if (performance.now() - lock.since > BUSY_TIMEOUT_MS) throw error;
          await setTimeout(BUSY_POLL_MS);
        }
      }
    },
    streamQuery: (query, chunkSize) => connection.streamQuery(query, chunkSize),
  };
}

class TransactionalDdlAdapter extends SqliteAdapter {
  /** SQLite's DDL is transactional; with this, Kysely's migrator runs each migration in a transaction. */
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

/** Leaves out row locks (`for update`): a transaction that writes is the only one. */
class LocklessCompiler extends SqliteQueryCompiler {
  protected override visitSelectQuery(node: SelectQueryNode): void {
    const { endModifiers: _locks, ...query } = node;
    super.visitSelectQuery(query);
  }
}

/** Queries on a connection. Its opener closes the connection: Kysely closes none that was never used. */
export function queriesOn<T = Tables>(sqlite: Sqlite.Database): Kysely<T> {
  return new Kysely<T>({ dialect: new BerthSqliteDialect(sqlite) });
}

class BerthSqliteDialect extends SqliteDialect {
  readonly #sqlite: Sqlite.Database;

  constructor(sqlite: Sqlite.Database) {
    super({ database: sqlite });
    this.#sqlite = sqlite;
  }

  override createDriver(): Driver {
    const sqlite = this.#sqlite;
    const statements = new LRUCache<string, Sqlite.Statement>({
      max: STATEMENT_LIMIT,
      memoMethod: (sql) => sqlite.prepare(sql),
    });
    const database = { prepare: (sql: string) => statements.memo(sql), close: () => undefined };
    return new ImmediateDriver({ database }, sqlite);
  }

  override createQueryCompiler(): SqliteQueryCompiler {
    return new LocklessCompiler();
  }

  override createAdapter(): SqliteAdapter {
    return new TransactionalDdlAdapter();
  }
}
