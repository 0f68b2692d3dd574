/** An open database, and the options for opening one. */
import type { Kysely, Transaction } from 'kysely';
import type { Migrations } from './migrate.ts';
import type { Reserve } from './reserve.ts';
import type { Tables } from './schema.ts';

export interface Database {
  /** For writes, and for reads inside their transaction. This process runs one transaction at a time. */
  readonly db: Kysely<Tables>;
  /** For reads of committed data. */
  readonly reads: Kysely<Tables>;
  readonly reserve: Reserve;
  /**
   * SQLite: writes the write-ahead log back into the file and empties it, unless another connection reads. The log also
   * holds deleted data.
   */
  emptyLog(): Promise<void>;
  close(): Promise<void>;
}

export interface Reads {
  readonly reads: Kysely<Tables>;
  close(): Promise<void>;
}

export interface OpenOptions {
  /** SQLite: reads the whole file first, unless it is large. */
  readonly check?: boolean;
  /**
   * PostgreSQL: the file beside which this machine's reserve is kept (`reserve.ts`); no reserve when left out. SQLite's
   * reserve is beside the database.
   */
  readonly reserveBeside?: string;
  /** PostgreSQL: opens all connections now. Later a long-running process may have no file descriptor left. */
  readonly isEager?: boolean;
  /** PostgreSQL: statements have no time limit. */
  readonly isPatient?: boolean;
  /** The known migrations, for tests. */
  readonly known?: Migrations;
}

// Transactions that make webhooks due. Uploads, files and checks use them, and the dispatcher runs them.

/** The result of a transaction, and the destinations of the webhooks that it has enqueued. */
export interface Enqueued<T> {
  readonly value: T;
  readonly destinations: readonly string[];
}

export type Work<T> = (tx: Transaction<Tables>) => Promise<Enqueued<T>>;

/**
 * Runs a transaction that may enqueue webhooks. Those with a free slot are claimed in the same transaction and sent at
 * once.
 */
export type Transact = <T>(work: Work<T>) => Promise<T>;
