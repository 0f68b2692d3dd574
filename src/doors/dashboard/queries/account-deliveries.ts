/**
 * Deliveries of an account or of one directory: filtered, in pages, and counted. A filter by file name reads the bodies, a
 * hundred at a time, and at most a certain number for each page.
 */
import { setImmediate } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import { countRows, type ListPlace } from '../../../foundation/db/lists.ts';
import type { Micros } from '../../../foundation/base/clock.ts';
import type { DeliveryRow, Tables } from '../../../foundation/db/schema.ts';
import {
  attemptsOf,
  DELIVERY_COLUMNS,
  deliveryOf,
  IN_STATE,
  NO_TEST,
  type ShownState,
} from '../../../deliveries/webhooks/delivery-list.ts';
import { filenameOf, type ListedDelivery } from './deliveries.ts';

export interface DeliveriesFilter {
  readonly accountId: string;
  /** A directory of the account. */
  readonly directoryId?: string | undefined;
  readonly state?: ShownState | undefined;
  /** Leaves out tests, and failed deliveries that were sent again or will be. What is left needs attention. */
  readonly isOpen?: boolean;
  /** Only deliveries that were created from `since` on, and before `until`. */
  readonly since?: Micros | undefined;
  readonly until?: Micros | undefined;
  /** A part of the file's name. Upper and lower case are equal. */
  readonly text?: string | undefined;
}

export interface AccountDelivery extends ListedDelivery {
  readonly directory_id: string;
  readonly directory: string;
}

export interface AccountDeliveriesPage {
  readonly deliveries: readonly AccountDelivery[];
  readonly next: ListPlace | undefined;
}

/** When names are filtered: rows that are read at once, and the most for one page. */
const BATCH = 100;
const MOST_SEARCHED = 20_000;
/** At most this many rows are counted. */
const COUNTED = 100_000;

type Row = Pick<DeliveryRow, (typeof DELIVERY_COLUMNS)[number] | 'directory_id' | 'body' | 'replayed_as'>;

function matching(
  reads: Kysely<Tables>,
  { accountId, directoryId, state, isOpen = false, since, until }: DeliveriesFilter,
) {
  let query = reads.selectFrom('deliveries');
  // Only one of the two conditions, so that the database has only one index to choose.
  query =
    directoryId === undefined
      ? query.where('account_id', '=', accountId)
      : query.where('directory_id', '=', directoryId);
  if (state !== undefined) query = query.where(IN_STATE[state]);
  if (since !== undefined) query = query.where('inserted_at', '>=', since);
  if (until !== undefined) query = query.where('inserted_at', '<', until);
  if (isOpen) query = query.where(NO_TEST).where('replayed_as', 'is', null).where('replay_at', 'is', null);
  return query;
}

/** All matching rows, newest first. `isShown` tells whether the name matches too. */
async function* rowsOf(
  reads: Kysely<Tables>,
  filter: DeliveriesFilter,
  { after, batch }: { after?: ListPlace | undefined; batch: number },
): AsyncGenerator<{ readonly row: Row; readonly isShown: boolean }> {
  const wanted = filter.text?.toLowerCase();
  for (let place = after; ;) {
    const { at, id } = place ?? { at: Number.MAX_SAFE_INTEGER, id: '' };
    const rows = await matching(reads, filter)
      .select([...DELIVERY_COLUMNS, 'directory_id', 'body', 'replayed_as'])
      .where('inserted_at', '<=', at)
      .where(({ eb, refTuple, tuple }) => eb(refTuple('inserted_at', 'id'), '<', tuple(at, id)))
      .orderBy('inserted_at', 'desc')
      .orderBy('id', 'desc')
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
export async function accountDeliveries(
  reads: Kysely<Tables>,
  filter: DeliveriesFilter,
  { after, limit }: { after: ListPlace | undefined; limit: number },
): Promise<AccountDeliveriesPage> {
  const found: Row[] = [];
  let searched = 0;
  let next: ListPlace | undefined;
  let last: Row | undefined;
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

async function withNames(reads: Kysely<Tables>, rows: readonly Row[]): Promise<AccountDelivery[]> {
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

export async function countDeliveries(reads: Kysely<Tables>, filter: DeliveriesFilter): Promise<Count> {
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
  const some = matching(reads, filter)
    .select('inserted_at')
    .limit(COUNTED + 1);
  const count = await countRows(reads, some);
  return { count: Math.min(count, COUNTED), isExact: count <= COUNTED };
}

/** How many deliveries one click sends again. */
export const MOST_REPLAYED = 10_000;

/** The failed deliveries that need attention, by directory. */
export async function replayable(reads: Kysely<Tables>, filter: DeliveriesFilter): Promise<Map<string, string[]>> {
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
