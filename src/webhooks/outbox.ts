/**
 * Puts webhooks into the outbox, in the transaction that records the upload: either both are there or neither.
 * A row is complete: URL, bytes and signature are fixed here, and later changes of the directory do not reach it.
 */
import { randomUUID } from 'node:crypto';
import type { Insertable, Transaction } from 'kysely';
import type { Micros } from '../clock.ts';
import type { DeliveriesTable, DirectoriesTable, Tables } from '../db/schema.ts';
import { payload } from './payload.ts';
import { sign } from './signature.ts';

/** Rows in one statement: far below the 32,766 parameters that SQLite allows. */
const ROWS = 200;

export interface UploadEvent {
  readonly directory: Pick<
    DirectoriesTable,
    'id' | 'account_id' | 'slug' | 'external_id' | 'webhook_url' | 'webhook_secret'
  >;
  /** The path below the directory, as text. */
  readonly filename: string;
  readonly sizeBytes: number;
  readonly uploadedAt: Micros;
  readonly now: Micros;
}

/**
 * Enqueues a webhook for each event whose directory has a URL, many in one statement. Call the dispatcher's `wake` once
 * the transaction is committed.
 * @returns how many there are.
 */
export async function enqueue(tx: Transaction<Tables>, ...events: readonly UploadEvent[]): Promise<number> {
  const rows = events.flatMap((event) =>
    event.directory.webhook_url ? [row(event, event.directory.webhook_url)] : [],
  );
  for (let start = 0; start < rows.length; start += ROWS) {
    await tx
      .insertInto('deliveries')
      .values(rows.slice(start, start + ROWS))
      .execute();
  }
  return rows.length;
}

function row(event: UploadEvent, url: string): Insertable<DeliveriesTable> {
  const { directory, now } = event;
  const body = payload(event);
  return {
    id: randomUUID(),
    directory_id: directory.id,
    account_id: directory.account_id,
    url,
    destination: `${directory.account_id} ${origin(url)}`,
    body,
    signature: sign(body, directory.webhook_secret),
    state: 'queued',
    attempts: 0,
    inserted_at: now,
    due_at: now,
    finished_at: null,
  };
}

/** Scheme, host and port. What is no URL is kept apart by its text; its attempts fail and say so. */
function origin(url: string): string {
  return URL.parse(url)?.origin ?? url;
}
