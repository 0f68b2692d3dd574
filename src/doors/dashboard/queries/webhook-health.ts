/** How a directory's webhook is doing. Each query uses an index. */
import type { Kysely } from 'kysely';
import type { Micros } from '../../../foundation/base/clock.ts';
import type { AttemptsTable, DeliveryRow, Tables } from '../../../foundation/db/schema.ts';
import { IN_STATE } from '../../../deliveries/webhooks/delivery-list.ts';
import { failingWebhooks } from './failing-webhooks.ts';

export interface LastAttempt extends Pick<AttemptsTable, 'status' | 'error' | 'started_at'>, Pick<DeliveryRow, 'url'> {
  readonly isTest: boolean;
}

export interface WebhookState {
  /** Since when it fails; undefined if it does not. */
  readonly failingSince: Micros | undefined;
  /** The latest attempt to the present URL that has ended; undefined before the first. */
  readonly last: LastAttempt | undefined;
}

/** The latest attempt is searched for among this many deliveries of each state: the newest that ended, and the oldest pending, which are tried first. */
const SEARCHED = 20;

/** @param url where webhooks go now. */
export async function webhookState(reads: Kysely<Tables>, directoryId: string, url: string): Promise<WebhookState> {
  const failing = await failingWebhooks(reads, [directoryId]);
  return { failingSince: failing.get(directoryId), last: await lastAttempt(reads, directoryId, url) };
}

async function lastAttempt(reads: Kysely<Tables>, directoryId: string, url: string): Promise<LastAttempt | undefined> {
  const some = (state: keyof typeof IN_STATE) => {
    const first = reads
      .selectFrom('deliveries')
      // Only what the index of failed deliveries has: otherwise SQLite reads all deliveries for the failed ones.
      .select('id')
      .where('directory_id', '=', directoryId)
      .where(IN_STATE[state])
      .orderBy('inserted_at', state === 'pending' ? 'asc' : 'desc')
      .limit(SEARCHED);
    return reads.selectFrom(first.as('first')).selectAll();
  };
  const searched = some('pending').unionAll(some('delivered')).unionAll(some('failed'));
  const row = await reads
    .selectFrom(searched.as('searched'))
    .innerJoin('deliveries as d', 'd.id', 'searched.id')
    .innerJoin('attempts', 'attempts.delivery_id', 'searched.id')
    .select(['d.event', 'd.url', 'attempts.status', 'attempts.error', 'attempts.started_at'])
    .where('d.url', '=', url)
    .where('attempts.finished_at', 'is not', null)
    .orderBy('attempts.started_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row && { ...row, isTest: row.event === 'test' };
}
