/** A directory's deliveries with the names of their files, and one delivery with everything that is known about it. */
import { type Kysely, sql } from 'kysely';
import type { AttemptsTable, DeliveryRow, Tables } from '../../../foundation/db/schema.ts';
import { BerthError } from '../../../foundation/base/errors.ts';
import {
  type Delivery,
  type DeliveryFilter,
  deliveryOf,
  listDeliveries,
} from '../../../deliveries/webhooks/delivery-list.ts';

export interface ListedDelivery extends Delivery {
  readonly filename: string;
  /** The id of the latest replay. */
  readonly replayed_as: string | null;
}

interface DeliveriesPage {
  readonly deliveries: readonly ListedDelivery[];
  /** The `after` of the next page, if there is one. */
  readonly next: string | undefined;
}

/** Newest first. @throws {ValidationError} for an unknown `after`. */
export async function deliveriesPage(
  reads: Kysely<Tables>,
  directoryId: string,
  { limit, ...filter }: DeliveryFilter,
): Promise<DeliveriesPage> {
  const rows = await listDeliveries(reads, directoryId, { ...filter, limit: limit + 1, withTests: true });
  const deliveries = rows.slice(0, limit);
  const ids = deliveries.map(({ id }) => id);
  const bodies = await reads
    .selectFrom('deliveries')
    .select(['id', 'body', 'replayed_as'])
    .where('id', 'in', ids)
    .execute();
  const others = new Map(bodies.map(({ id, body, replayed_as }) => [id, { filename: filenameOf(body), replayed_as }]));
  return {
    deliveries: deliveries.map((row) => ({ ...row, filename: '', replayed_as: null, ...others.get(row.id) })),
    next: rows.length > limit ? deliveries.at(-1)?.id : undefined,
  };
}

export interface WholeDelivery extends ListedDelivery, Pick<DeliveryRow, 'body'> {
  readonly attempts: readonly Omit<AttemptsTable, 'delivery_id' | 'finished_at'>[];
}

/** @throws {BerthError} `delivery_not_found` when it is unknown or another directory's. */
export async function wholeDelivery(reads: Kysely<Tables>, directoryId: string, id: string): Promise<WholeDelivery> {
  const row = await reads
    .selectFrom('deliveries')
    .select(['id', 'event', 'upload_id', 'url', 'body', 'state', 'inserted_at', 'due_at', 'replayed_as'])
    .where('id', '=', id)
    .where('directory_id', '=', directoryId)
    .executeTakeFirst();
  if (!row) throw new BerthError('delivery_not_found', 'Delivery not found');
  const attempts = await reads
    .selectFrom('attempts')
    .select(['number', 'started_at', 'status', 'error', 'latency_us', 'response'])
    .where('delivery_id', '=', id)
    .orderBy('number')
    .execute();
  const { body, replayed_as } = row;
  return { ...deliveryOf(row), attempts, body, replayed_as, filename: filenameOf(body) };
}

const COUNTED = 1000;

/** How many of a directory's deliveries are about to be replayed, as text. */
export async function replaysToCome(reads: Kysely<Tables>, directoryId: string): Promise<string | undefined> {
  const marked = reads
    .selectFrom('deliveries')
    .select('id')
    .where('directory_id', '=', directoryId)
    .where('replay_at', 'is not', null)
    .limit(COUNTED);
  const { count } = await reads
    .selectFrom(marked.as('marked'))
    .select(sql<number>`count(*)`.as('count'))
    .executeTakeFirstOrThrow();
  return count === 0 ? undefined : count === COUNTED ? '1,000 or more' : String(count);
}

/** What a delivery is about: the uploaded file, or another event and its file, if it has one. */
export function filenameOf(body: Buffer): string {
  const { event, filename = '' } = JSON.parse(body.toString()) as { event?: string; filename?: string };
  return event === undefined || event === 'file.uploaded' ? filename : `${event} ${filename}`.trim();
}
