/**
 * Announces the events other than uploads that a directory, or else its account, asks for. Each event is treated like
 * `file.uploaded`: it goes into the account's feed and, if there is a URL, into the outbox, in the transaction that
 * records it.
 *
 * A directory that asks for no events costs no statement.
 */
import { type Kysely, sql, type Transaction } from 'kysely';
import { formatMicros, type Micros } from '../../foundation/base/clock.ts';
import { compiled } from '../../foundation/db/compiled.ts';
import type { DeliveryRow, DirectoryRow, EventKind, Tables } from '../../foundation/db/schema.ts';
import { insertEvents } from '../../rules/history/events.ts';
import { enqueue, enqueueNow, unsent, type UploadEvent } from './outbox.ts';
import { type Destined, receiverUrl } from './receiver-of.ts';

export type FurtherKind = Exclude<EventKind, 'file.uploaded'>;

/** The name of the field in an event's body that holds its time. */
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
  /** The fields of this kind of event, in order. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export type EventDirectory = Destined &
  Pick<DirectoryRow, 'id' | 'slug' | 'external_id'> & {
    /** The kinds that the directory asks for, as JSON text. Set where `EVENT_COLUMNS` were read. */
    readonly wanted?: string | null;
  };

/** The kinds that the `directories` row of a query asks for, or else its account, as JSON text; null for none. */
const wantedEvents = sql<string | null>`coalesce(
  directories.events, (select accounts.events from accounts where accounts.id = directories.account_id)
)`;

/** The columns of a directory that its events and their log lines need. */
export const EVENT_COLUMNS = [
  'id',
  'account_id',
  'slug',
  'external_id',
  'webhook_url',
  'uses_account_webhook',
  'sftp_username',
  wantedEvents.as('wanted'),
] as const;

const wantedBy = compiled<{ id: string }>()((db, p) =>
  db.selectFrom('directories').select(wantedEvents.as('wanted')).where('id', '=', p('id')),
);

/** Whether the directory asks for events of that kind. */
export async function wants(db: Kysely<Tables>, directory: EventDirectory, kind: FurtherKind): Promise<boolean> {
  const { id, wanted = (await wantedBy.first(db, { id }))?.wanted } = directory;
  return wanted !== null && wanted !== undefined && (JSON.parse(wanted) as string[]).includes(kind);
}

type Enqueue = (tx: Transaction<Tables>, delivery: DeliveryRow) => Promise<unknown>;

/** An event and the directory that asks for it. */
export interface Further {
  readonly directory: EventDirectory;
  readonly event: FurtherEvent;
}

/**
 * Announces events in the order of their times, as the feed lists them.
 * @returns the destinations of the webhooks, for the dispatcher.
 */
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
): Promise<DeliveryRow | undefined> {
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

/** The exact bytes of an event's body: the fields of its kind, between those that every event has. */
function bodyOf({ id, external_id, slug }: EventDirectory, { kind, at, fields }: FurtherEvent): Buffer {
  const times = { [TIMES[kind]]: formatMicros(at) };
  return Buffer.from(
    JSON.stringify({ event: kind, directory_id: id, external_id, ...fields, ...times, directory: slug }),
  );
}
