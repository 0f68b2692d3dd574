/**
 * Puts webhooks into the outbox, in the transaction that records the upload: either both are there or neither.
 * A row is complete: URL, bytes and signature are fixed here, and later changes of the directory do not reach it.
 */
import { randomUUID } from 'node:crypto';
import type { Transaction } from 'kysely';
import { formatMicros, type Micros } from '../clock.ts';
import { compiled } from '../db/compiled.ts';
import type { DeliveriesTable, DirectoriesTable, Tables } from '../db/schema.ts';
import { sign } from './signature.ts';

export interface UploadEvent {
  readonly directory: Pick<
    DirectoriesTable,
    'id' | 'account_id' | 'slug' | 'external_id' | 'webhook_url' | 'webhook_secret'
  >;
  /** The path below the directory, as text: bytes that are not UTF-8 are U+FFFD here. */
  readonly filename: string;
  readonly sizeBytes: number;
  readonly uploadedAt: Micros;
}

const insert = compiled<DeliveriesTable>()((db, p) =>
  db.insertInto('deliveries').values({
    id: p('id'),
    directory_id: p('directory_id'),
    account_id: p('account_id'),
    url: p('url'),
    destination: p('destination'),
    body: p('body'),
    signature: p('signature'),
    state: p('state'),
    attempts: p('attempts'),
    inserted_at: p('inserted_at'),
    due_at: p('due_at'),
    finished_at: p('finished_at'),
  }),
);

/**
 * Enqueues a webhook for each event whose directory has a URL.
 * @returns the destination of each of them, for the transaction (`dispatcher.ts`).
 */
export async function enqueue(tx: Transaction<Tables>, ...events: readonly UploadEvent[]): Promise<string[]> {
  const destinations: string[] = [];
  for (const event of events) {
    const { webhook_url: url } = event.directory;
    if (!url) continue;
    const delivery = newDelivery(event, url);
    await insert.all(tx, delivery);
    destinations.push(delivery.destination);
  }
  return destinations;
}

function newDelivery(event: UploadEvent, url: string): DeliveriesTable {
  const { directory, uploadedAt } = event;
  const body = payload(event);
  return {
    id: randomUUID(),
    directory_id: directory.id,
    account_id: directory.account_id,
    upload_id: null,
    url,
    destination: `${directory.account_id} ${origin(url)}`,
    body,
    signature: sign(body, directory.webhook_secret),
    state: 'queued',
    attempts: 0,
    inserted_at: uploadedAt,
    due_at: uploadedAt,
    finished_at: null,
    replay_at: null,
  };
}

/** Scheme, host and port. What is no URL is kept apart by its text; its attempts fail and say so. */
function origin(url: string): string {
  return URL.parse(url)?.origin ?? url;
}

/** The exact bytes to sign and send, at every attempt; fields in the order of the specification ("Body"). */
export function payload({ directory, filename, sizeBytes, uploadedAt }: UploadEvent): Buffer {
  return Buffer.from(
    JSON.stringify({
      event: 'file.uploaded',
      directory_id: directory.id,
      external_id: directory.external_id,
      filename,
      size_bytes: sizeBytes,
      uploaded_at: formatMicros(uploadedAt),
      directory: directory.slug,
    }),
  );
}
