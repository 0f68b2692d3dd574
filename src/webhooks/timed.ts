/** Deliveries that wait for their time: retries, and attempts whose lease has not ended. */
import type { Kysely } from 'kysely';
import type { Micros } from '../clock.ts';
import { compiled } from '../db/compiled.ts';
import type { Tables } from '../db/schema.ts';
import { present } from '../db/shared.ts';
import { TIMED } from './queue.ts';
import { LONGEST_WAIT } from './retry-after.ts';

const earliest = compiled<{ now: Micros }>()((db, p) =>
  db
    .selectFrom('deliveries')
    .select((eb) => eb('due_at', '-', present(db, p('now'))).as('wait'))
    .where(TIMED)
    .orderBy('due_at')
    .limit(1),
);

/** In how many µs the next retry is due or the next lease ends; less than 0 when it is overdue. */
export async function nextTimed(reads: Kysely<Tables>, now: Micros): Promise<Micros | undefined> {
  return (await earliest.first(reads, { now }))?.wait ?? undefined;
}

/** Moves every retry and lease by as much as the wall clock was moved, so that each stays as far away as it was. */
export async function shift(tx: Kysely<Tables>, by: Micros): Promise<void> {
  await tx
    .updateTable('deliveries')
    .set((eb) => ({ due_at: eb('due_at', '+', by) }))
    .where(TIMED)
    .execute();
}

/**
 * Pulls in what lies further ahead than a wait of berth's own can reach: the clock was set back while berth was down. A
 * wait that a receiver asked for stays, unless the attempt before it seems to lie in the future.
 */
export async function clamp(tx: Kysely<Tables>, now: Micros, longest: Micros): Promise<void> {
  await tx
    .updateTable('deliveries')
    .set({ due_at: now + longest })
    .where(TIMED)
    .where('due_at', '>', now + longest)
    .where(({ exists, not, selectFrom }) =>
      not(
        exists(
          selectFrom('attempts')
            .select('number')
            .whereRef('delivery_id', '=', 'deliveries.id')
            .whereRef('number', '=', 'deliveries.attempts')
            .where('finished_at', '<=', now)
            .where(({ eb, ref }) => eb(ref('deliveries.due_at'), '<=', eb('finished_at', '+', LONGEST_WAIT))),
        ),
      ),
    )
    .execute();
}
