/**
 * The list of deliveries: those of all accounts, of one or of one directory; filtered, newest first, in pages, counted, and with the
 * outcome of every attempt.
 */
import { setImmediate } from 'node:timers/promises';
import { type Kysely, type RawBuilder, type SelectQueryBuilder, sql } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import { countRows, type ListPlace, type Owner, ownedBy, placeInList } from '../../foundation/db/lists.ts';
import { among } from '../../foundation/db/dialect.ts';
import type { AttemptsTable, DeliveryRow, Tables } from '../../foundation/db/schema.ts';
import { BerthError } from '../../foundation/base/errors.ts';

export const DELIVERY_STATES = ['pending', 'delivered', 'failed'] as const;
export type ShownState = (typeof DELIVERY_STATES)[number];

export interface Delivery extends Pick<DeliveryRow, 'id' | 'event' | 'upload_id' | 'url' | 'inserted_at'> {
  readonly state: ShownState;
  readonly attempts: readonly Pick<AttemptsTable, 'started_at' | 'status' | 'error' | 'latency_us'>[];
  /** Null while an attempt runs, and when there will be no further attempt. */
  readonly next_attempt_at: Micros | null;
}

export interface DeliveryFilter {
  /** Undefined for those of all accounts. */
  readonly owner?: Owner | undefined;
  readonly state?: ShownState | undefined;
  /** Whether tests are listed too. */
  readonly withTests?: boolean;
  /** Leaves out tests, and failed deliveries that were sent again or will be. What is left needs attention. */
  readonly isOpen?: boolean;
  /** Only deliveries that were created from `since` on, and before `until`. */
  readonly since?: Micros | undefined;
  readonly until?: Micros | undefined;
}

/** Leaves tests out. Only the index of an account's failed deliveries has it: elsewhere, count the tests and subtract them. */
export const NO_TEST = sql<boolean>`event <> 'test'`;

/** Each condition is written exactly like that of its partial index. */
export const IN_STATE: Record<ShownState, RawBuilder<boolean>> = {
  pending: sql`state in ('queued', 'running', 'waiting')`,
  delivered: sql`state = 'delivered'`,
  failed: sql`state = 'failed'`,
};

const DELIVERY_COLUMNS = [
  'id',
  'event',
  'upload_id',
  'url',
  'inserted_at',
  'state',
  'due_at',
] as const satisfies readonly (keyof DeliveryRow)[];

type Row = Pick<DeliveryRow, (typeof DELIVERY_COLUMNS)[number]>;

type Query = SelectQueryBuilder<Tables, 'deliveries', object>;

function matching(
  reads: Kysely<Tables>,
  { owner, state, withTests = false, isOpen = false, since, until }: DeliveryFilter,
): Query {
  let query: Query = reads.selectFrom('deliveries');
  if (owner) query = query.where(ownedBy(owner, 'deliveries'));
  if (state !== undefined) query = query.where(IN_STATE[state]);
  if (since !== undefined) query = query.where('inserted_at', '>=', since);
  if (until !== undefined) query = query.where('inserted_at', '<', until);
  if (!withTests || isOpen) query = query.where(NO_TEST);
  if (isOpen) query = query.where('replayed_as', 'is', null).where('replay_at', 'is', null);
  return query;
}

/** Newest first, after a place. A page takes equally long for all states. */
function newestFirst(query: Query, after: ListPlace | undefined): Query {
  const ordered = query.orderBy('inserted_at', 'desc').orderBy('id', 'desc');
  if (!after) return ordered;
  const { at, id } = after;
  return ordered
    .where('inserted_at', '<=', at)
    .where(({ eb, refTuple, tuple }) => eb(refTuple('inserted_at', 'id'), '<', tuple(at, id)));
}

/**
 * A directory's deliveries.
 * @param page `after`: a delivery's id, or the place of one that may have gone.
 * @throws {ValidationError} when `after` is not one of its deliveries.
 */
export async function listDeliveries(
  reads: Kysely<Tables>,
  directoryId: string,
  {
    state,
    after,
    limit,
  }: {
    readonly state?: ShownState | undefined;
    readonly after?: string | ListPlace | undefined;
    readonly limit: number;
  },
): Promise<Delivery[]> {
  const place = typeof after === 'string' ? await placeInList(reads, 'deliveries', directoryId, after) : after;
  const query = matching(reads, { state }).where('directory_id', '=', directoryId);
  return withAttempts(reads, await newestFirst(query, place).select(DELIVERY_COLUMNS).limit(limit).execute());
}

/** The newest rows, each with the outcome of its last attempt. */
export async function newestDeliveries(reads: Kysely<Tables>, filter: DeliveryFilter, limit: number) {
  const rows = await newestFirst(matching(reads, filter), undefined).selectAll().limit(limit).execute();
  const attempts = await attemptsOf(reads, rows);
  return rows.map((row) => {
    const { status = null, error = null, latency_us = null } = attempts.get(row.id)?.at(-1) ?? {};
    return { ...row, status, error, latency_us };
  });
}

/** @throws {BerthError} `delivery_not_found`. */
export async function deliveryById(reads: Kysely<Tables>, directoryId: string, id: string): Promise<Delivery> {
  const row = await reads
    .selectFrom('deliveries')
    .select(DELIVERY_COLUMNS)
    .where('id', '=', id)
    .where('directory_id', '=', directoryId)
    .where(NO_TEST)
    .executeTakeFirst();
  const [delivery] = await withAttempts(reads, row ? [row] : []);
  if (!delivery) throw new BerthError('delivery_not_found', 'Delivery not found');
  return delivery;
}

/** The deliveries of these rows, in their order. */
async function withAttempts(reads: Kysely<Tables>, rows: readonly Row[]): Promise<Delivery[]> {
  const attempts = await attemptsOf(reads, rows);
  return rows.map((row) => deliveryOf(row, attempts.get(row.id)));
}

export function deliveryOf(
  { id, event, upload_id, url, inserted_at, state, due_at }: Row,
  attempts: Delivery['attempts'] = [],
): Delivery {
  const shown = state === 'delivered' || state === 'failed' ? state : 'pending';
  // While an attempt runs, `due_at` is the end of its lease.
  const next_attempt_at = state === 'running' ? null : due_at;
  return { id, event, upload_id, url, inserted_at, state: shown, attempts, next_attempt_at };
}

/** The attempts of these deliveries, by the delivery's id, in order. */
async function attemptsOf(reads: Kysely<Tables>, rows: readonly Pick<Row, 'id'>[]) {
  const ids = rows.map(({ id }) => id);
  const all = await reads
    .selectFrom('attempts')
    .select(['delivery_id', 'started_at', 'status', 'error', 'latency_us'])
    .where('delivery_id', 'in', among(reads, ids))
    .orderBy('number')
    .execute();
  return Map.groupBy(all, ({ delivery_id }) => delivery_id);
}

/** A delivery as the dashboard lists it. */
export interface ListedDelivery extends Delivery {
  /** What it is about, as `filenameOf`. */
  readonly filename: string;
  /** The id of the latest replay. */
  readonly replayed_as: string | null;
  readonly directory_id: string;
  readonly directory: string;
}

export interface DeliveriesPage {
  readonly deliveries: readonly ListedDelivery[];
  readonly next: ListPlace | undefined;
}

/** When names are filtered: rows that are read at once, and the most for one page. */
const BATCH = 100;
const MOST_SEARCHED = 20_000;
/** At most this many rows are counted. */
const COUNTED = 100_000;

type RowWithBody = Row & Pick<DeliveryRow, 'directory_id' | 'body' | 'replayed_as'>;

/** As the dashboard filters: with tests, and by a part of the file's name. Upper and lower case are equal. */
export interface DeliverySearch extends DeliveryFilter {
  readonly owner: Owner;
  readonly text?: string | undefined;
}

/** All matching rows, newest first. `isShown` tells whether the name matches too. */
async function* rowsOf(
  reads: Kysely<Tables>,
  filter: DeliverySearch,
  { after, batch }: { after?: ListPlace | undefined; batch: number },
): AsyncGenerator<{ readonly row: RowWithBody; readonly isShown: boolean }> {
  const wanted = filter.text?.toLowerCase();
  for (let place = after; ;) {
    const rows = await newestFirst(matching(reads, { withTests: true, ...filter }), place)
      .select([...DELIVERY_COLUMNS, 'directory_id', 'body', 'replayed_as'])
      .limit(batch)
      .execute();
    for (const row of rows)
      yield { row, isShown: wanted === undefined || filenameOf(row.body).toLowerCase().includes(wanted) };
    const last = rows.at(-1);
    if (rows.length < batch || !last) return;
    place = { at: last.inserted_at, id: last.id };
    await setImmediate();
  }
}

/** A page. If the search had to stop before the page was full, `next` is set too, and the next page continues from there. */
export async function deliveriesPage(
  reads: Kysely<Tables>,
  filter: DeliverySearch,
  { after, limit }: { after?: ListPlace | undefined; limit: number },
): Promise<DeliveriesPage> {
  const found: RowWithBody[] = [];
  let searched = 0;
  let next: ListPlace | undefined;
  let last: RowWithBody | undefined;
  for await (const { row, isShown } of rowsOf(reads, filter, {
    after,
    batch: filter.text === undefined ? limit + 1 : BATCH,
  })) {
    if (searched === MOST_SEARCHED || (found.length === limit && isShown)) {
      next = last && { at: last.inserted_at, id: last.id };
      break;
    }
    searched += 1;
    last = row;
    if (isShown) found.push(row);
  }
  return { deliveries: await withNames(reads, found), next };
}

async function withNames(reads: Kysely<Tables>, rows: readonly RowWithBody[]): Promise<ListedDelivery[]> {
  const directories = await reads
    .selectFrom('directories')
    .select(['id', 'name'])
    .where('id', 'in', [...new Set(rows.map(({ directory_id }) => directory_id))])
    .execute();
  const names = new Map(directories.map(({ id, name }) => [id, name]));
  const attempts = await attemptsOf(reads, rows);
  return rows.map((row) => ({
    ...deliveryOf(row, attempts.get(row.id)),
    filename: filenameOf(row.body),
    replayed_as: row.replayed_as,
    directory_id: row.directory_id,
    directory: names.get(row.directory_id) ?? '',
  }));
}

export interface Count {
  readonly count: number;
  /** False when there may be more. */
  readonly isExact: boolean;
}

export async function countDeliveries(reads: Kysely<Tables>, filter: DeliverySearch): Promise<Count> {
  if (filter.text !== undefined) {
    let count = 0;
    let searched = 0;
    for await (const { isShown } of rowsOf(reads, filter, { batch: BATCH })) {
      if (searched === MOST_SEARCHED) return { count, isExact: false };
      searched += 1;
      if (isShown) count += 1;
    }
    return { count, isExact: true };
  }
  const some = matching(reads, { withTests: true, ...filter })
    .select('inserted_at')
    .limit(COUNTED + 1);
  const count = await countRows(reads, some);
  return { count: Math.min(count, COUNTED), isExact: count <= COUNTED };
}

/** How many deliveries one click sends again. */
export const MOST_REPLAYED = 10_000;

/** The failed deliveries that need attention, by directory. */
export async function replayable(reads: Kysely<Tables>, filter: DeliverySearch): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>();
  let count = 0;
  const failed = { ...filter, state: 'failed', isOpen: true } as const;
  for await (const { row, isShown } of rowsOf(reads, failed, { batch: BATCH })) {
    if (!isShown) continue;
    found.set(row.directory_id, [...(found.get(row.directory_id) ?? []), row.id]);
    count += 1;
    if (count === MOST_REPLAYED) break;
  }
  return found;
}

export interface WholeDelivery extends Delivery, Pick<DeliveryRow, 'body' | 'replayed_as'> {
  readonly filename: string;
  readonly attempts: readonly Omit<AttemptsTable, 'delivery_id' | 'finished_at'>[];
}

/** @throws {BerthError} `delivery_not_found` when it is unknown or another directory's. */
export async function wholeDelivery(reads: Kysely<Tables>, directoryId: string, id: string): Promise<WholeDelivery> {
  const row = await reads
    .selectFrom('deliveries')
    .select([...DELIVERY_COLUMNS, 'body', 'replayed_as'])
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
function filenameOf(body: Buffer): string {
  const { event, filename = '' } = JSON.parse(body.toString()) as { event?: string; filename?: string };
  return event === undefined || event === 'file.uploaded' ? filename : `${event} ${filename}`.trim();
}

// The webhook of each listed file: its latest delivery. The first one has the time of the upload, and names the one
// that was sent again; a new one about the same file is found if it is among the directory's latest. No delivery is
// searched for further.

export interface ListedFile {
  readonly id: string;
  readonly uploaded_at: Micros;
}

/** How many of the directory's latest deliveries are read. */
const LATEST = 100;
/** How often a delivery is followed to the one that was sent again. */
const MOST_STEPS = 10;

const WEBHOOK_COLUMNS = [...DELIVERY_COLUMNS, 'replayed_as'] as const;
type WebhookRow = Pick<DeliveryRow, (typeof WEBHOOK_COLUMNS)[number]>;

/** By the file's id, of those whose webhook is known. */
export async function fileWebhooks(
  reads: Kysely<Tables>,
  directoryId: string,
  files: readonly ListedFile[],
): Promise<Map<string, Delivery>> {
  const ids = files.map(({ id }) => id);
  if (ids.length === 0) return new Map();
  const of = reads.selectFrom('deliveries').select(WEBHOOK_COLUMNS).where('directory_id', '=', directoryId);
  const times = [...new Set(files.map(({ uploaded_at }) => uploaded_at))];
  const first = await of.where('inserted_at', 'in', times).where('upload_id', 'in', ids).execute();
  const latest = await of.orderBy('inserted_at', 'desc').limit(LATEST).execute();
  const found = new Map<string, WebhookRow>();
  const note = (row: WebhookRow): void => {
    const before = found.get(row.upload_id ?? '');
    if (row.upload_id !== null && (before === undefined || row.inserted_at > before.inserted_at))
      found.set(row.upload_id, row);
  };
  for (const row of [...first, ...latest]) note(row);
  for (let step = 0; step < MOST_STEPS; step += 1) {
    const next = ids.flatMap((id) => found.get(id)?.replayed_as ?? []);
    if (next.length === 0) break;
    for (const row of await of.where('id', 'in', next).execute()) note(row);
  }
  const deliveries = await withAttempts(
    reads,
    ids.flatMap((id) => found.get(id) ?? []),
  );
  return new Map(deliveries.map((delivery) => [delivery.upload_id ?? '', delivery]));
}
