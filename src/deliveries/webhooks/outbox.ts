/**
 * Puts webhooks into the outbox, in the transaction that records the upload, so that either both exist or neither. The
 * body's bytes are fixed here. The URL and the secrets are read from the directory at each attempt (`queue.ts`).
 */
import { randomUUID } from 'node:crypto';
import type { Transaction } from 'kysely';
import { type Clock, formatMicros, type Micros } from '../../foundation/base/clock.ts';
import { compiledInsert } from '../../foundation/db/compiled.ts';
import type { DeliveryRow, DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { presentTime } from '../../foundation/db/shared.ts';
import { insertEvents, type NewEvent } from '../../rules/history/events.ts';
import { receiverUrl } from './receiver-of.ts';

export interface UploadEvent {
  readonly directory: Pick<
    DirectoryRow,
    'id' | 'account_id' | 'slug' | 'external_id' | 'webhook_url' | 'uses_account_webhook'
  >;
  /** The row of the file; null for an upload that was overwritten before it got one. */
  readonly uploadId: string | null;
  /** The path below the directory, as text: bytes that are not UTF-8 are U+FFFD here. */
  readonly filename: string;
  readonly sizeBytes: number;
  readonly uploadedAt: Micros;
}

const EVENT = 'file.uploaded';

const insert = compiledInsert('deliveries', [
  'id',
  'directory_id',
  'account_id',
  'upload_id',
  'url',
  'destination',
  'event',
  'body',
  'state',
  'attempts',
  'inserted_at',
  'due_at',
  'finished_at',
]);

/**
 * Adds each upload to its account's feed, and enqueues a webhook if its directory or its account has a URL.
 * @returns the destinations of the webhooks, for the transaction (`dispatcher.ts`).
 */
export async function enqueue(tx: Transaction<Tables>, ...uploads: readonly UploadEvent[]): Promise<string[]> {
  const events: NewEvent[] = [];
  const deliveries: DeliveryRow[] = [];
  for (const upload of uploads) {
    const body = payload(upload);
    events.push(feedEvent(upload, body));
    const url = await receiverUrl(tx, upload.directory);
    if (url) deliveries.push(deliveryOf(upload, body, url, upload.uploadedAt));
  }
  await insertEvents(tx, events);
  await insert(tx, deliveries);
  return deliveries.map(({ destination }) => destination);
}

function feedEvent({ directory, uploadId, uploadedAt }: UploadEvent, body: Buffer): NewEvent {
  return {
    account_id: directory.account_id,
    at: uploadedAt,
    event: EVENT,
    directory_id: directory.id,
    upload_id: uploadId,
    body: body.toString(),
  };
}

/** Enqueues a delivery in a transaction of the dispatcher, which gets the destination from that transaction. */
export async function enqueueNow(tx: Transaction<Tables>, delivery: DeliveryRow): Promise<void> {
  await insert(tx, [delivery]);
}

/**
 * Enqueues a delivery in any other transaction, maybe in another process. The dispatcher finds deliveries that become
 * due by time without being notified.
 */
export async function enqueueDue(tx: Transaction<Tables>, delivery: DeliveryRow, clock: Clock): Promise<DeliveryRow> {
  const row = { ...delivery, state: 'waiting' as const, due_at: await presentTime(tx, clock) };
  await insert(tx, [row]);
  return row;
}

export function deliveryFor(event: UploadEvent, url: string, now = event.uploadedAt): DeliveryRow {
  return deliveryOf(event, payload(event), url, now);
}

function deliveryOf({ directory, uploadId }: UploadEvent, body: Buffer, url: string, now: Micros): DeliveryRow {
  const of = {
    directory_id: directory.id,
    account_id: directory.account_id,
    upload_id: uploadId,
    event: EVENT,
  } as const;
  return unsent({ ...of, body }, url, now);
}

/** A finished delivery as a new one. */
export function replayOf(old: DeliveryRow, url: string, now: Micros): DeliveryRow {
  return unsent(old, url, now);
}

/** A delivery of those bytes without any attempt. */
export function unsent(
  {
    directory_id,
    account_id,
    upload_id,
    event,
    body,
  }: Pick<DeliveryRow, 'directory_id' | 'account_id' | 'upload_id' | 'event' | 'body'>,
  url: string,
  now: Micros,
): DeliveryRow {
  return {
    id: randomUUID(),
    directory_id,
    account_id,
    upload_id,
    event,
    url,
    destination: destinationOf(account_id, url),
    body,
    state: 'queued',
    attempts: 0,
    inserted_at: now,
    due_at: now,
    finished_at: null,
    replay_at: null,
    replayed_as: null,
  };
}

/**
 * The longest origin in a destination. No DNS name makes a longer one, and the index on destinations cannot hold texts
 * of any length.
 */
const LONGEST_ORIGIN = 300;

/**
 * The destination of a delivery: the account, and the receiver's scheme, host and port. Deliveries to one destination
 * share its turns. For an invalid URL the text itself is used; the attempts fail and say so.
 */
export function destinationOf(accountId: string, url: string): string {
  return `${accountId} ${(URL.parse(url)?.origin ?? url).slice(0, LONGEST_ORIGIN)}`;
}

/**
 * The exact bytes that every attempt signs and sends. The fields are in the order of the specification ("Body").
 * @param more further fields for the end.
 */
export function payload(
  { directory, filename, sizeBytes, uploadedAt }: Omit<UploadEvent, 'uploadId'>,
  more: { readonly test?: true } = {},
): Buffer {
  return Buffer.from(
    JSON.stringify({
      event: EVENT,
      directory_id: directory.id,
      external_id: directory.external_id,
      filename,
      size_bytes: sizeBytes,
      uploaded_at: formatMicros(uploadedAt),
      directory: directory.slug,
      ...more,
    }),
  );
}
