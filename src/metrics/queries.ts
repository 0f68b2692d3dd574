/** What a scrape reads from the database: each from an index that holds little more than the answer. */
import { type Kysely, sql } from 'kysely';
import type { Micros } from '../clock.ts';
import type { Tables } from '../db/schema.ts';

export const OPEN_STATES = ['queued', 'running', 'waiting'] as const;
export type OpenState = (typeof OPEN_STATES)[number];

export interface StateQueries {
  /** Deliveries in that state, and since when the oldest has been in the outbox. */
  outbox(state: OpenState): Promise<{ count: number; oldest: Micros | null }>;
  partialUploads(): Promise<number>;
}

export function stateQueries(reads: Kysely<Tables>): StateQueries {
  return {
    outbox: (state) =>
      reads
        .selectFrom('deliveries')
        .select(({ fn }) => [fn.countAll<number>().as('count'), fn.min('inserted_at').as('oldest')])
        // A literal in the text, or SQLite could not use the index of just these.
        .where('state', '=', sql.lit(state))
        .executeTakeFirstOrThrow(),
    async partialUploads() {
      const { count } = await reads
        .selectFrom('files')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .where('state', '=', sql.lit('partial'))
        .executeTakeFirstOrThrow();
      return count;
    },
  };
}
