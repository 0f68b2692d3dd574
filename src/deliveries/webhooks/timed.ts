/** Deliveries with a time in the outbox: retries, and attempts whose lease has not expired. */
import type { Kysely } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import { compiled } from '../../foundation/db/compiled.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { present } from '../../foundation/db/shared.ts';
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

/** How many µs are left until the next retry is due or the next lease expires. Negative when that is overdue. */
export async function nextTimed(reads: Kysely<Tables>, now: Micros): Promise<Micros | undefined> {
  return (await earliest.first(reads, { now }))?.wait ?? undefined;
}

/** Moves the time of every retry and lease by as much as the wall clock was set, so that waits keep their length. */
export async function shift(tx: Kysely<Tables>, by: Micros): Promise<void> {
  await tx
    .updateTable('deliveries')
    .set((eb) => ({ due_at: eb('due_at', '+', by) }))
    .where(TIMED)
    .execute();
}

/**
 * Limits times that are further ahead than any wait of berth's own, because the clock was set back while berth was
 * down. A wait that a receiver asked for stays, unless the attempt before it seems to be in the future.
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
