/** Transactions that make webhooks due. Uploads, files and checks use them, and the dispatcher runs them. */
import type { Transaction } from 'kysely';
import type { Tables } from './schema.ts';

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
