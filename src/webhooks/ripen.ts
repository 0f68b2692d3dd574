/**
 * waiting → queued when a retry is due; running → queued or failed when the lease has ended, which means that the
 * process died in the attempt. Also what keeps these times sane when somebody sets the clock.
 */
import { sql, type Transaction } from 'kysely';
import type { Micros } from '../clock.ts';
import type { Tables } from '../db/schema.ts';
import { MAX_ATTEMPTS } from './backoff.ts';

/** Rows in one round; the rest follows in the next, so that nothing else waits long. */
const ROUND = 100;

/** `state in ('running', 'waiting')`, as the index on `due_at` has it. */
export const TIMED = sql<boolean>`state in ('running', 'waiting')`;

/** Makes due what has become due, at most 100 deliveries. */
export async function ripen(tx: Transaction<Tables>, now: Micros): Promise<void> {
  const ripe = await tx
    .selectFrom('deliveries')
    .select(['id', 'state', 'attempts'])
    .where(TIMED)
    .where('due_at', '<=', now)
    .orderBy('due_at')
    .limit(ROUND)
    .execute();
  const dead = ripe.filter(({ state }) => state === 'running');
  const over = new Set(dead.filter(({ attempts }) => attempts >= MAX_ATTEMPTS).map(({ id }) => id));
  const again = ripe.map(({ id }) => id).filter((id) => !over.has(id));

  for (const { id, attempts } of dead) {
    await tx
      .updateTable('attempts')
      .set({ finished_at: now, error: 'berth stopped during this attempt' })
      .where('delivery_id', '=', id)
      .where('number', '=', attempts)
      .execute();
  }
  if (again.length > 0) {
    await tx.updateTable('deliveries').set({ state: 'queued', due_at: now }).where('id', 'in', again).execute();
  }
  if (over.size > 0) {
    await tx
      .updateTable('deliveries')
      .set({ state: 'failed', due_at: null, finished_at: now })
      .where('id', 'in', [...over])
      .execute();
  }
}

/** Moves every retry and lease by as much as the wall clock was moved, so that each stays as far away as it was. */
export async function shift(tx: Transaction<Tables>, by: Micros): Promise<void> {
  await tx
    .updateTable('deliveries')
    .set((eb) => ({ due_at: eb('due_at', '+', by) }))
    .where(TIMED)
    .execute();
}

/** Pulls in what lies further ahead than any wait can reach: the clock was set back while berth was down. */
export async function clamp(tx: Transaction<Tables>, latest: Micros): Promise<void> {
  await tx.updateTable('deliveries').set({ due_at: latest }).where(TIMED).where('due_at', '>', latest).execute();
}
