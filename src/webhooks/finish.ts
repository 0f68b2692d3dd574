/**
 * running → delivered, waiting, failed or queued: what came of attempts, many in one transaction.
 * An attempt whose lease is lost (see `claim.ts`), or whose delivery went with its directory, changes nothing.
 */
import type { Transaction } from 'kysely';
import type { Micros } from '../clock.ts';
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
}

type Outcome = Pick<DeliveriesTable, 'state' | 'due_at' | 'finished_at'>;

/** Records what came of these attempts; `now` is when they count as finished. */
export async function finish(tx: Transaction<Tables>, finished: readonly Finished[], now: Micros): Promise<void> {
  const held: Finished[] = [];
  for (const group of together(finished)) held.push(...(await conclude(tx, group, now)));
  if (held.length === 0) return;
  await tx
    .insertInto('attempts')
    .values(
      held.map((attempt) => ({
        delivery_id: attempt.id,
        number: attempt.attempts,
        started_at: now,
        finished_at: now,
        status: attempt.status,
        latency_us: attempt.latency,
        error: attempt.error,
        response: attempt.response,
      })),
    )
    // The row is there since the claim: this is an update of many rows in one statement.
    .onConflict((conflict) =>
      conflict.columns(['delivery_id', 'number']).doUpdateSet((eb) => ({
        finished_at: eb.ref('excluded.finished_at'),
        status: eb.ref('excluded.status'),
        latency_us: eb.ref('excluded.latency_us'),
        error: eb.ref('excluded.error'),
        response: eb.ref('excluded.response'),
      })),
    )
    .execute();
}

/** Attempts of one number and outcome, which one statement can conclude; retries are due at different times. */
function together(finished: readonly Finished[]): Finished[][] {
  const groups = Map.groupBy(finished, ({ attempts, ok, retryIn }) =>
    retryIn === undefined ? `${attempts} ${ok}` : Symbol('its own'),
  );
  return [...groups.values()];
}

/** Gives back those whose lease was still held. */
async function conclude(
  tx: Transaction<Tables>,
  group: readonly Finished[],
  now: Micros,
): Promise<readonly Finished[]> {
  const [first] = group;
  if (!first) return [];
  const rows = await tx
    .updateTable('deliveries')
    .set(outcome(first, now))
    .where('state', '=', 'running')
    .where('attempts', '=', first.attempts)
    .where(
      'id',
      'in',
      group.map(({ id }) => id),
    )
    .returning('id')
    .execute();
  if (rows.length === group.length) return group;
  const held = new Set(rows.map(({ id }) => id));
  return group.filter(({ id }) => held.has(id));
}

function outcome({ ok, attempts, retryIn }: Finished, now: Micros): Outcome {
  if (ok) return { state: 'delivered', due_at: null, finished_at: now };
  if (attempts >= MAX_ATTEMPTS || retryIn === undefined) return { state: 'failed', due_at: null, finished_at: now };
  return { state: retryIn > 0 ? 'waiting' : 'queued', due_at: now + retryIn, finished_at: null };
}
