/** Deliveries as their account sees them: three states, and every attempt with what came of it. */
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Micros } from '../clock.ts';
import type { AttemptsTable, DeliveriesTable, Tables } from '../db/schema.ts';
import { ValidationError } from '../errors.ts';

export const DELIVERY_STATES = ['pending', 'delivered', 'failed'] as const;
export type ShownState = (typeof DELIVERY_STATES)[number];

export interface Delivery extends Pick<DeliveriesTable, 'id' | 'upload_id' | 'url' | 'inserted_at'> {
  readonly state: ShownState;
  readonly attempts: readonly Pick<AttemptsTable, 'started_at' | 'status' | 'error' | 'latency_us'>[];
  /** Null while an attempt runs, and when there is none to come. */
  readonly next_attempt_at: Micros | null;
}

export interface DeliveryFilter {
  readonly state?: ShownState | undefined;
  readonly limit: number;
  /** The id of a delivery: those that come after it. */
  readonly after?: string | undefined;
}

/**
 * Each in the words of the index that finds them. Those of a directory that are pending are found among all that are, which
 * are few: an index of their own would cost every delivery.
 */
const OF_DIRECTORY: Record<ShownState, (id: string) => RawBuilder<boolean>> = {
  pending: (id) => sql`state in ('queued', 'running', 'waiting') and +directory_id = ${id}`,
  delivered: (id) => sql`state = 'delivered' and directory_id = ${id}`,
  failed: (id) => sql`state = 'failed' and directory_id = ${id}`,
};

type Row = Pick<DeliveriesTable, 'id' | 'upload_id' | 'url' | 'inserted_at' | 'state' | 'due_at'>;

/** A directory's deliveries, newest first. @throws {ValidationError} when `after` is none of them. */
export async function listDeliveries(
  reads: Kysely<Tables>,
  directoryId: string,
  { state, limit, after }: DeliveryFilter,
): Promise<Delivery[]> {
  const query = await newestFirst(reads, directoryId, after);
  const rows = await query
    .where((eb) => (state === undefined ? eb('directory_id', '=', directoryId) : OF_DIRECTORY[state](directoryId)))
    .limit(limit)
    .execute();
  return withAttempts(reads, rows);
}

/** Deliveries that a search looks at: some 10 ms. */
const LOOKED_AT = 2000;

/**
 * The same for a state that no index finds when it is rare: of so many at a time, however few are in that state.
 * @returns also after which one to go on, if there are more to look at.
 */
export async function searchDeliveries(
  reads: Kysely<Tables>,
  directoryId: string,
  { state, limit, after }: DeliveryFilter,
): Promise<{ deliveries: Delivery[]; next: string | undefined }> {
  const query = await newestFirst(reads, directoryId, after);
  const rows = await query.where('directory_id', '=', directoryId).limit(LOOKED_AT).execute();
  const found = rows.filter((row) => deliveryOf(row).state === state);
  const shown = found.slice(0, limit);
  const last = found.length > limit ? shown.at(-1) : rows[LOOKED_AT - 1];
  return { deliveries: await withAttempts(reads, shown), next: last?.id };
}

async function newestFirst(reads: Kysely<Tables>, directoryId: string, after: string | undefined) {
  const query = reads
    .selectFrom('deliveries')
    .select(['id', 'upload_id', 'url', 'inserted_at', 'state', 'due_at'])
    .orderBy('inserted_at', 'desc')
    .orderBy('id', 'desc');
  if (after === undefined) return query;
  const { inserted_at, id } = await placeOf(reads, directoryId, after);
  return query
    .where('inserted_at', '<=', inserted_at)
    .where(({ eb, refTuple, tuple }) => eb(refTuple('inserted_at', 'id'), '<', tuple(inserted_at, id)));
}

async function withAttempts(reads: Kysely<Tables>, rows: readonly Row[]): Promise<Delivery[]> {
  const attempts = Map.groupBy(await attemptsOf(reads, rows), ({ delivery_id }) => delivery_id);
  return rows.map((row) => deliveryOf(row, attempts.get(row.id)));
}

export function deliveryOf(
  { id, upload_id, url, inserted_at, state, due_at }: Row,
  attempts: Delivery['attempts'] = [],
): Delivery {
  const shown = state === 'delivered' || state === 'failed' ? state : 'pending';
  // Of a running one it says when the lease ends.
  const next_attempt_at = state === 'running' ? null : due_at;
  return { id, upload_id, url, inserted_at, state: shown, attempts, next_attempt_at };
}

async function attemptsOf(reads: Kysely<Tables>, rows: readonly Row[]) {
  const ids = rows.map(({ id }) => id);
  return reads
    .selectFrom('attempts')
    .select(['delivery_id', 'started_at', 'status', 'error', 'latency_us'])
    .where('delivery_id', 'in', ids)
    .orderBy('number')
    .execute();
}

async function placeOf(reads: Kysely<Tables>, directoryId: string, id: string) {
  const place = await reads
    .selectFrom('deliveries')
    .select(['inserted_at', 'id'])
    .where('id', '=', id)
    .where('directory_id', '=', directoryId)
    .executeTakeFirst();
  // An empty page would look like the end of the list.
  if (!place) throw new ValidationError({ after: ['is invalid'] });
  return place;
}
