/** One delivery with everything that is known about it. */
import type { Kysely } from 'kysely';
import type { AttemptsTable, DeliveryRow, Tables } from '../../../foundation/db/schema.ts';
import { BerthError } from '../../../foundation/base/errors.ts';
import { type Delivery, deliveryOf } from '../../../deliveries/webhooks/delivery-list.ts';

export interface ListedDelivery extends Delivery {
  readonly filename: string;
  /** The id of the latest replay. */
  readonly replayed_as: string | null;
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

/** What a delivery is about: the uploaded file, or another event and its file, if it has one. */
export function filenameOf(body: Buffer): string {
  const { event, filename = '' } = JSON.parse(body.toString()) as { event?: string; filename?: string };
  return event === undefined || event === 'file.uploaded' ? filename : `${event} ${filename}`.trim();
}
