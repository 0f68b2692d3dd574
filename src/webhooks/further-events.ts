/**
 * What a directory, or else its account, asks to hear of beside uploads. Each event goes the way of `file.uploaded`: into the
 * account's feed and, where there is a URL, into the outbox, in the transaction that records what happened.
 *
 * A directory that asks for nothing costs no statement.
 */
import { type Kysely, sql, type Transaction } from 'kysely';
import { formatMicros, type Micros } from '../clock.ts';
import { compiled } from '../db/compiled.ts';
import type { DeliveriesTable, DirectoriesTable, EventKind, Tables } from '../db/schema.ts';
import { insertEvents } from '../history/events.ts';
import { enqueue, enqueueNow, unsent, type UploadEvent } from './outbox.ts';
import { type Destined, receiverUrl } from './receiver-of.ts';

export type FurtherKind = Exclude<EventKind, 'file.uploaded'>;

/** What each event is dated by, in its body. */
const TIMES: Readonly<Record<FurtherKind, string>> = {
  'file.deleted': 'deleted_at',
  'file.renamed': 'renamed_at',
  'file.downloaded': 'downloaded_at',
  'file.rejected': 'rejected_at',
  'upload.failed': 'failed_at',
  'login.refused': 'refused_at',
};

export interface FurtherEvent {
  readonly kind: FurtherKind;
  readonly at: Micros;
  /** Its own fields, in their order. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export type EventDirectory = Destined &
  Pick<DirectoriesTable, 'id' | 'slug' | 'external_id'> & {
    /** As `wantedEvents` has it, where it was read already. */
    readonly wanted?: string | null;
  };

/** JSON text of the kinds that the row of `directories` in a query asks for, or else its account; null for none. */
export const wantedEvents = sql<string | null>`coalesce(
  directories.events, (select accounts.events from accounts where accounts.id = directories.account_id)
)`;

const wantedBy = compiled<{ id: string }>()((db, p) =>
  db.selectFrom('directories').select(wantedEvents.as('wanted')).where('id', '=', p('id')),
);

/** Whether it asks for that. */
export async function wants(db: Kysely<Tables>, directory: EventDirectory, kind: FurtherKind): Promise<boolean> {
  const { id, wanted = (await wantedBy.first(db, { id }))?.wanted } = directory;
  return wanted !== null && wanted !== undefined && (JSON.parse(wanted) as string[]).includes(kind);
}

type Enqueue = (tx: Transaction<Tables>, delivery: DeliveriesTable) => Promise<unknown>;

/** One of a directory that asks for it. */
export interface Further {
  readonly directory: EventDirectory;
  readonly event: FurtherEvent;
}

/** In the order of their times, which is that of the feed. @returns the destinations of the webhooks, for the dispatcher. */
export async function announceInOrder(
  tx: Transaction<Tables>,
  uploads: readonly UploadEvent[],
  further: readonly Further[],
  put: Enqueue = enqueueNow,
): Promise<string[]> {
  if (further.length === 0) return enqueue(tx, ...uploads);
  const steps = [
    ...uploads.map((upload) => ({ at: upload.uploadedAt, announce: () => enqueue(tx, upload) })),
    ...further.map(({ directory, event }) => ({
      at: event.at,
      announce: async () => {
        const delivery = await announceFurther(tx, directory, event, put);
        return delivery ? [delivery.destination] : [];
      },
    })),
  ].toSorted((a, b) => a.at - b.at);
  const destinations: string[] = [];
  for (const { announce } of steps) destinations.push(...(await announce()));
  return destinations;
}

/** @returns the webhook, where there is a URL to send it to. */
export async function announceFurther(
  tx: Transaction<Tables>,
  directory: EventDirectory,
  event: FurtherEvent,
  put: Enqueue = enqueueNow,
): Promise<DeliveriesTable | undefined> {
  const { id: directory_id, account_id } = directory;
  const body = bodyOf(directory, event);
  const of = { account_id, directory_id, upload_id: null, event: event.kind };
  await insertEvents(tx, [{ ...of, at: event.at, body: body.toString() }]);
  const url = await receiverUrl(tx, directory);
  if (url === null) return undefined;
  const delivery = unsent({ ...of, body }, url, event.at);
  await put(tx, delivery);
  return delivery;
}

/** The exact bytes, with what every event has around its own fields. */
function bodyOf({ id, external_id, slug }: EventDirectory, { kind, at, fields }: FurtherEvent): Buffer {
  const times = { [TIMES[kind]]: formatMicros(at) };
  return Buffer.from(
    JSON.stringify({ event: kind, directory_id: id, external_id, ...fields, ...times, directory: slug }),
  );
}
