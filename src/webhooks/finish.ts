/**
 * running → delivered, waiting, failed or queued: what came of attempts, many in one transaction.
 * One that never reached the receiver for want of something of our own does not count.
 * An attempt whose lease is lost (see `claim.ts`), or whose delivery went with its directory, changes nothing.
 */
import type { Transaction } from 'kysely';
import type { Micros } from '../clock.ts';
import { compiled } from '../db/compiled.ts';
import type { DeliveriesTable, Tables } from '../db/schema.ts';
import { MAX_ATTEMPTS } from './backoff.ts';

export interface Finished {
  readonly id: string;
  /** The attempt's number: with the id, the lease. */
  readonly attempts: number;
  readonly ok: boolean;
  readonly status: number | null;
  /** From the start of the attempt to the response's head, or to the failure, in µs. */
  readonly latency: Micros;
  readonly error: string | null;
  readonly response: Buffer | null;
  /** The wait before the next attempt, in µs, if there is one: 0 gives the delivery back at once. */
  readonly retryIn: Micros | undefined;
  /** The receiver was not asked: the attempt is as if it had not been. */
  readonly isSpared?: boolean;
}

type Outcome = Pick<DeliveriesTable, 'state' | 'due_at' | 'finished_at'>;

const conclude = compiled<Pick<Finished, 'id' | 'attempts'> & Outcome & { counted: number }>()((db, p) =>
  db
    .updateTable('deliveries')
    .set({ state: p('state'), attempts: p('counted'), due_at: p('due_at'), finished_at: p('finished_at') })
    .where('id', '=', p('id'))
    .where('state', '=', 'running')
    .where('attempts', '=', p('attempts'))
    .returning('id'),
);
/** The row is there since the claim. */
const note = compiled<Finished & { now: Micros }>()((db, p) =>
  db
    .updateTable('attempts')
    .set({
      finished_at: p('now'),
      status: p('status'),
      latency_us: p('latency'),
      error: p('error'),
      response: p('response'),
    })
    .where('delivery_id', '=', p('id'))
    .where('number', '=', p('attempts')),
);

const forget = compiled<Pick<Finished, 'id' | 'attempts'>>()((db, p) =>
  db.deleteFrom('attempts').where('delivery_id', '=', p('id')).where('number', '=', p('attempts')),
);

/** Records what came of these attempts; `now` is when they count as finished. */
export async function finish(tx: Transaction<Tables>, finished: readonly Finished[], now: Micros): Promise<void> {
  for (const attempt of finished) {
    const { id, attempts } = attempt;
    const counted = attempt.isSpared ? attempts - 1 : attempts;
    const held = await conclude.first(tx, {
      id,
      attempts,
      counted,
      ...outcome({ ...attempt, attempts: counted }, now),
    });
    if (!held) continue;
    if (attempt.isSpared) await forget.all(tx, { id, attempts });
    else await note.all(tx, { ...attempt, now });
  }
}

function outcome({ ok, attempts, retryIn }: Finished, now: Micros): Outcome {
  if (ok) return { state: 'delivered', due_at: null, finished_at: now };
  if (attempts >= MAX_ATTEMPTS || retryIn === undefined) return { state: 'failed', due_at: null, finished_at: now };
  return { state: retryIn > 0 ? 'waiting' : 'queued', due_at: now + retryIn, finished_at: null };
}
