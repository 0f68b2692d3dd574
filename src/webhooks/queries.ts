/** What the dispatcher reads before each round. */
import { type Kysely, sql } from 'kysely';
import type { Micros } from '../clock.ts';
import { compiled } from '../db/compiled.ts';
import type { Tables } from '../db/schema.ts';
import { TIMED } from './ripen.ts';

export interface QueueReads {
  /** Up to `limit` destinations that have something due, in their order, after `after`. */
  destinations(after: string, limit: number): Promise<string[]>;
  /** When the next retry or lease comes up. */
  nextTimed(): Promise<Micros | undefined>;
}

/** Jumps through the index from one destination to the next: its cost is that of what it returns, however long the queues. */
const next = compiled<{ after: string; limit: number }>()((db, parameter) =>
  db
    .withRecursive('turns(destination)', (cte) =>
      cte
        .selectNoFrom((eb) =>
          eb
            .selectFrom('deliveries')
            .select('destination')
            .where('state', '=', sql.lit('queued'))
            .where('destination', '>', parameter('after'))
            .orderBy('destination')
            .limit(1)
            .as('destination'),
        )
        .unionAll(
          cte
            .selectFrom('turns')
            .select((eb) =>
              eb
                .selectFrom('deliveries')
                .select('deliveries.destination')
                .where('state', '=', sql.lit('queued'))
                .whereRef('deliveries.destination', '>', 'turns.destination')
                .orderBy('deliveries.destination')
                .limit(1)
                .as('destination'),
            )
            .where('turns.destination', 'is not', null),
        ),
    )
    .selectFrom('turns')
    .select('destination')
    .where('destination', 'is not', null)
    .limit(parameter('limit')),
);
const earliest = compiled()((db) =>
  db.selectFrom('deliveries').select('due_at').where(TIMED).orderBy('due_at').limit(1),
);

export function queueReads(reads: Kysely<Tables>): QueueReads {
  return {
    async destinations(after, limit) {
      return (await next.all(reads, { after, limit })).flatMap(({ destination }) => destination ?? []);
    },
    async nextTimed() {
      return (await earliest.first(reads, {}))?.due_at ?? undefined;
    },
  };
}
