/** How a directory's webhook is doing: its last answer, and how much of the last days was delivered. Each query uses an index. */
import { type Kysely, sql } from 'kysely';
import { DAY, type Micros } from '../../../foundation/base/clock.ts';
import { countRows } from '../../../foundation/db/count.ts';
import type { AttemptsTable, DeliveryRow, Tables } from '../../../foundation/db/schema.ts';
import { IN_STATE } from '../../../deliveries/webhooks/delivery-list.ts';
import { type FailingWebhook, failingWebhooks } from './failing-webhooks.ts';

export interface LastAttempt extends Pick<AttemptsTable, 'status' | 'error' | 'started_at'>, Pick<DeliveryRow, 'url'> {
  readonly isTest: boolean;
}

export interface WebhookState {
  readonly failing: FailingWebhook | undefined;
  /** The latest attempt to the present URL that has ended; undefined before the first. */
  readonly last: LastAttempt | undefined;
}

export interface WebhookHealth extends WebhookState {
  readonly rate: DeliveryRate | undefined;
}

/** The share of the last days' finished deliveries that were delivered, 0 to 1. Tests do not count. */
export interface DeliveryRate {
  readonly share: number;
  readonly days: number;
}

/** The days for the share. With more deliveries than are counted, the next, shorter time is used. */
const SPANS = [7, 1] as const;
const COUNTED = 20_000;

/** The latest attempt is searched for among this many deliveries of each state: the newest that ended, and the oldest pending, which are tried first. */
const SEARCHED = 20;

/** @param url where webhooks go now: the latest attempt is the latest to that URL. */
export async function webhookHealth(
  reads: Kysely<Tables>,
  directoryId: string,
  { now, url }: { readonly now: Micros; readonly url: string | undefined },
): Promise<WebhookHealth> {
  return { ...(await webhookState(reads, directoryId, url)), rate: await deliveryRate(reads, directoryId, now) };
}

/** @param url as above. */
export async function webhookState(
  reads: Kysely<Tables>,
  directoryId: string,
  url: string | undefined,
): Promise<WebhookState> {
  const failing = await failingWebhooks(reads, [directoryId]);
  const last = url === undefined ? undefined : await lastAttempt(reads, directoryId, url);
  return { failing: failing.get(directoryId), last };
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

async function deliveryRate(
  reads: Kysely<Tables>,
  directoryId: string,
  now: Micros,
): Promise<DeliveryRate | undefined> {
  for (const days of SPANS) {
    const since = now - days * DAY;
    const [delivered, failed] = await Promise.all([
      countIn(reads, directoryId, since, 'delivered'),
      countIn(reads, directoryId, since, 'failed'),
    ]);
    if (delivered.all === COUNTED || failed.all === COUNTED) continue;
    const good = delivered.all - delivered.tests;
    const total = good + failed.all - failed.tests;
    return total === 0 ? undefined : { share: good / total, days };
  }
  return undefined;
}

/** How many deliveries have ended so since that time, and how many of them are tests. */
async function countIn(
  reads: Kysely<Tables>,
  directoryId: string,
  since: Micros,
  state: 'delivered' | 'failed',
): Promise<{ readonly all: number; readonly tests: number }> {
  const of = reads
    .selectFrom('deliveries')
    .select('inserted_at')
    .where('directory_id', '=', directoryId)
    .where('inserted_at', '>=', since)
    .limit(COUNTED);
  // By the index of tests: `coalesce` keeps that of the state from being chosen.
  const tests = of.where(sql<boolean>`event = 'test' and coalesce(state, '') = ${state}`);
  return { all: await countRows(reads, of.where(IN_STATE[state])), tests: await countRows(reads, tests) };
}
