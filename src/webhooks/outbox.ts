/**
 * Puts webhooks into the outbox, in the transaction that records the upload: either both are there or neither.
 * The bytes are fixed here. Where they go and how they are signed is read from the directory at each attempt (`queue.ts`).
 */
import { randomUUID } from 'node:crypto';
import type { Transaction } from 'kysely';
import { type Clock, formatMicros, type Micros } from '../clock.ts';
import { compiledInsert } from '../db/compiled.ts';
import type { DeliveriesTable, DirectoriesTable, Tables } from '../db/schema.ts';
import { presentTime } from '../db/shared.ts';
import { insertEvents, type NewEvent } from '../history/events.ts';
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
 * Puts each upload into its account's feed, and enqueues a webhook where its directory or its account has a URL.
 * @returns the destination of each of them, for the transaction (`dispatcher.ts`).
 */
export async function enqueue(tx: Transaction<Tables>, ...uploads: readonly UploadEvent[]): Promise<string[]> {
  const events: NewEvent[] = [];
  const deliveries: DeliveriesTable[] = [];
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

/** For a transaction of the dispatcher's, which is told the destination. */
export async function enqueueNow(tx: Transaction<Tables>, delivery: DeliveriesTable): Promise<void> {
  await insert(tx, [delivery]);
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
  await insert(tx, [row]);
  return row;
}

export function deliveryFor(event: UploadEvent, url: string, now = event.uploadedAt): DeliveriesTable {
  return deliveryOf(event, payload(event), url, now);
}

function deliveryOf({ directory, uploadId }: UploadEvent, body: Buffer, url: string, now: Micros): DeliveriesTable {
  const of = {
    directory_id: directory.id,
    account_id: directory.account_id,
    upload_id: uploadId,
    event: EVENT,
  } as const;
  return unsent({ ...of, body }, url, now);
}

/** A finished delivery as a new one. */
export function replayOf(old: DeliveriesTable, url: string, now: Micros): DeliveriesTable {
  return unsent(old, url, now);
}

/** A delivery of those bytes that nobody has tried yet. */
export function unsent(
  {
    directory_id,
    account_id,
    upload_id,
    event,
    body,
  }: Pick<DeliveriesTable, 'directory_id' | 'account_id' | 'upload_id' | 'event' | 'body'>,
  url: string,
  now: Micros,
): DeliveriesTable {
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
