/**
 * Puts webhooks into the outbox, in the transaction that records the upload: either both are there or neither.
 * The bytes are fixed here. Where they go and how they are signed is read from the directory at each attempt (`queue.ts`).
 */
import { randomUUID } from 'node:crypto';
import type { Transaction } from 'kysely';
import { type Clock, formatMicros, type Micros } from '../clock.ts';
import { compiled } from '../db/compiled.ts';
import type { DeliveriesTable, DirectoriesTable, Tables } from '../db/schema.ts';
import { presentTime } from '../db/shared.ts';
import { insertEvent, type NewEvent } from '../history/events.ts';
import { receiverUrl } from './receiver-of.ts';

export interface UploadEvent {
  readonly directory: Pick<
    DirectoriesTable,
    'id' | 'account_id' | 'slug' | 'external_id' | 'webhook_url' | 'uses_account_webhook'
  >;
  /** The row of the file; null for an upload that was overwritten before it got one. */
  readonly uploadId: string | null;
  /** The path below the directory, as text: bytes that are not UTF-8 are U+FFFD here. */
  readonly filename: string;
  readonly sizeBytes: number;
  readonly uploadedAt: Micros;
}

/** The only one there is. */
export const EVENT = 'file.uploaded';

const insert = compiled<DeliveriesTable>()((db, p) =>
  db.insertInto('deliveries').values({
    id: p('id'),
    directory_id: p('directory_id'),
    account_id: p('account_id'),
    upload_id: p('upload_id'),
    url: p('url'),
    destination: p('destination'),
    body: p('body'),
    state: p('state'),
    attempts: p('attempts'),
    inserted_at: p('inserted_at'),
    due_at: p('due_at'),
    finished_at: p('finished_at'),
  }),
);

/**
 * Puts each upload into its account's feed, and enqueues a webhook where its directory or its account has a URL.
 * @returns the destination of each of them, for the transaction (`dispatcher.ts`).
 */
export async function enqueue(tx: Transaction<Tables>, ...events: readonly UploadEvent[]): Promise<string[]> {
  const destinations: string[] = [];
  for (const event of events) {
    await insertEvent(tx, feedEvent(event));
    const url = await receiverUrl(tx, event.directory);
    if (!url) continue;
    const delivery = deliveryFor(event, url);
    await enqueueNow(tx, delivery);
    destinations.push(delivery.destination);
  }
  return destinations;
}

function feedEvent(upload: UploadEvent): NewEvent {
  const { directory, uploadId, uploadedAt } = upload;
  return {
    account_id: directory.account_id,
    at: uploadedAt,
    event: EVENT,
    directory_id: directory.id,
    upload_id: uploadId,
    body: payload(upload).toString(),
  };
}

/** For a transaction of the dispatcher's, which is told the destination. */
export async function enqueueNow(tx: Transaction<Tables>, delivery: DeliveriesTable): Promise<void> {
  await insert.all(tx, delivery);
}

/**
 * For any other transaction, perhaps of another process: what becomes due by time is what the dispatcher looks for without
 * being told.
 */
export async function enqueueDue(
  tx: Transaction<Tables>,
  delivery: DeliveriesTable,
  clock: Clock,
): Promise<DeliveriesTable> {
  const row = { ...delivery, state: 'waiting' as const, due_at: await presentTime(tx, clock) };
  await insert.all(tx, row);
  return row;
}

export function deliveryFor(event: UploadEvent, url: string, now = event.uploadedAt): DeliveriesTable {
  const { directory, uploadId } = event;
  const of = { directory_id: directory.id, account_id: directory.account_id, upload_id: uploadId };
  return unsent({ ...of, body: payload(event) }, url, now);
}

/** A finished delivery as a new one. */
export function replayOf(old: DeliveriesTable, url: string, now: Micros): DeliveriesTable {
  return unsent(old, url, now);
}

/** A delivery of those bytes that nobody has tried yet. */
function unsent(
  {
    directory_id,
    account_id,
    upload_id,
    body,
  }: Pick<DeliveriesTable, 'directory_id' | 'account_id' | 'upload_id' | 'body'>,
  url: string,
  now: Micros,
): DeliveriesTable {
  return {
    id: randomUUID(),
    directory_id,
    account_id,
    upload_id,
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

/** No name of DNS makes a longer one, and the index of destinations holds no text of any length. */
const LONGEST_ORIGIN = 300;

/**
 * The account, and scheme, host and port of the receiver: whose turn it is. What is no URL is kept apart by its text; its
 * attempts fail and say so.
 */
export function destinationOf(accountId: string, url: string): string {
  return `${accountId} ${(URL.parse(url)?.origin ?? url).slice(0, LONGEST_ORIGIN)}`;
}

/**
 * The exact bytes to sign and send, at every attempt; fields in the order of the specification ("Body").
 * @param more fields that follow them.
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
