/** What a scrape reads from the database: each from an index that holds little more than the answer. */
import { sql } from 'kysely';
import type { Micros } from '../clock.ts';
import type { Reads } from '../db/reads.ts';

export const OPEN_STATES = ['queued', 'running', 'waiting'] as const;
export type OpenState = (typeof OPEN_STATES)[number];

export interface StateQueries {
  /** Deliveries in that state, and since when the oldest has been in the outbox. */
  outbox(state: OpenState): Promise<{ count: number; oldest: Micros | null }>;
  partialUploads(): Promise<number>;
}

export function stateQueries(reads: Reads): StateQueries {
  // The states are literals in the text, or SQLite could not use the index of just these.
  const open = (state: OpenState) =>
    reads.prepare<object>()((db) =>
      db
        .selectFrom('deliveries')
        .select(({ fn }) => [fn.countAll<number>().as('count'), fn.min('inserted_at').as('oldest')])
        .where('state', '=', sql.lit(state)),
    );
  const outbox = { queued: open('queued'), running: open('running'), waiting: open('waiting') };
  const partial = reads.prepare<object>()((db) =>
    db
      .selectFrom('files')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('state', '=', sql.lit('partial')),
  );
  return {
    outbox: async (state) => (await outbox[state].first({})) ?? { count: 0, oldest: null },
    partialUploads: async () => (await partial.first({}))?.count ?? 0,
  };
}
