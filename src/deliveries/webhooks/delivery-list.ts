/** Deliveries as the API shows them: in three states, and with the outcome of every attempt. */
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import { type ListPlace, placeInList } from '../../foundation/db/lists.ts';
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
  readonly state?: ShownState | undefined;
  readonly limit: number;
  /** Lists deliveries after this one: an id, or the place of a delivery that may have gone. */
  readonly after?: string | ListPlace | undefined;
  /** Whether tests are listed too. */
  readonly withTests?: boolean;
}

/** Leaves tests out. Only the index of an account's failed deliveries has it: elsewhere, count the tests and subtract them. */
export const NO_TEST = sql<boolean>`event <> 'test'`;

/** Each condition is written exactly like that of its partial index. */
export const IN_STATE: Record<ShownState, RawBuilder<boolean>> = {
  pending: sql`state in ('queued', 'running', 'waiting')`,
  delivered: sql`state = 'delivered'`,
  failed: sql`state = 'failed'`,
};

export const DELIVERY_COLUMNS = [
  'id',
  'event',
  'upload_id',
  'url',
  'inserted_at',
  'state',
  'due_at',
] as const satisfies readonly (keyof DeliveryRow)[];

type Row = Pick<DeliveryRow, (typeof DELIVERY_COLUMNS)[number]>;

/**
 * A directory's deliveries, newest first. A page takes equally long for all states.
 * @throws {ValidationError} when `after` is not one of its deliveries.
 */
export async function listDeliveries(
  reads: Kysely<Tables>,
  directoryId: string,
  { state, limit, after, withTests = false }: DeliveryFilter,
): Promise<Delivery[]> {
  let query = await newestFirst(reads, directoryId, after);
  if (!withTests) query = query.where(NO_TEST);
  if (state !== undefined) query = query.where(IN_STATE[state]);
  return withAttempts(reads, await query.limit(limit).execute());
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

async function newestFirst(reads: Kysely<Tables>, directoryId: string, after: DeliveryFilter['after']) {
  const query = reads
    .selectFrom('deliveries')
    .select(DELIVERY_COLUMNS)
    .where('directory_id', '=', directoryId)
    .orderBy('inserted_at', 'desc')
    .orderBy('id', 'desc');
  if (after === undefined) return query;
  const { at, id } = typeof after === 'string' ? await placeInList(reads, 'deliveries', directoryId, after) : after;
  return query
    .where('inserted_at', '<=', at)
    .where(({ eb, refTuple, tuple }) => eb(refTuple('inserted_at', 'id'), '<', tuple(at, id)));
}

/** The deliveries of these rows, in their order. */
export async function withAttempts(reads: Kysely<Tables>, rows: readonly Row[]): Promise<Delivery[]> {
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
export async function attemptsOf(reads: Kysely<Tables>, rows: readonly Pick<Row, 'id'>[]) {
  const ids = rows.map(({ id }) => id);
  const all = await reads
    .selectFrom('attempts')
    .select(['delivery_id', 'started_at', 'status', 'error', 'latency_us'])
    .where('delivery_id', 'in', ids)
    .orderBy('number')
    .execute();
  return Map.groupBy(all, ({ delivery_id }) => delivery_id);
}
