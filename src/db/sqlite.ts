/**
 * SQLite as a Kysely dialect, with the two things that Kysely's own leaves open: transactions take the write lock
 * when they begin (a reader that becomes a writer half-way can fail with SQLITE_BUSY, which no timeout waits for),
 * and statements are compiled once.
 */
import type Sqlite from 'better-sqlite3';
import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  SqliteAdapter,
  SqliteDialect,
  type SqliteDialectConfig,
  SqliteDriver,
} from 'kysely';

/** More than the distinct queries in the code; lists of varying length could otherwise fill it. */
const STATEMENT_LIMIT = 500;

class ImmediateDriver extends SqliteDriver {
  readonly #sqlite: Sqlite.Database;

  constructor(config: SqliteDialectConfig, sqlite: Sqlite.Database) {
    super(config);
    this.#sqlite = sqlite;
  }

  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('begin immediate'));
  }

  /** A full disk makes SQLite roll back by itself: to do it again would fail, and hide why. */
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#sqlite.inTransaction) await super.rollbackTransaction(connection);
  }
}

class TransactionalDdlAdapter extends SqliteAdapter {
  /** SQLite's DDL is transactional; with this, Kysely's migrator runs each migration in a transaction. */
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

export class BerthSqliteDialect extends SqliteDialect {
  readonly #sqlite: Sqlite.Database;

  constructor(sqlite: Sqlite.Database) {
    super({ database: sqlite });
    this.#sqlite = sqlite;
  }

  override createDriver(): Driver {
    const prepare = cachedPrepare(this.#sqlite);
    return new ImmediateDriver({ database: { prepare, close: () => void this.#sqlite.close() } }, this.#sqlite);
  }

  override createAdapter(): SqliteAdapter {
    return new TransactionalDdlAdapter();
  }
}

/** `prepare` of that database, with the statements kept by their text. */
export function cachedPrepare(sqlite: Sqlite.Database): (sql: string) => Sqlite.Statement {
  const statements = new Map<string, Sqlite.Statement>();
  return (sql) => {
    let statement = statements.get(sql);
    if (statement) return statement;
    statement = sqlite.prepare(sql);
    const oldest = statements.size < STATEMENT_LIMIT ? undefined : statements.keys().next().value;
    if (oldest !== undefined) statements.delete(oldest);
    statements.set(sql, statement);
    return statement;
  };
}
