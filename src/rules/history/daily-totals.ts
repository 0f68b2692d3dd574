/** Totals by day, of accounts. They are stored, since counting a month of uploads would take longer the more there are. */
import { type Kysely, sql, type Transaction } from 'kysely';
import { type Clock, DAY, type Micros } from '../../foundation/base/clock.ts';
import { compiled } from '../../foundation/db/compiled.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { DailyTotalsTable, Tables } from '../../foundation/db/schema.ts';

/** The last `days` days, including today. */
export interface Span {
  readonly now: Micros;
  readonly days: number;
}

export type DailyTotal = Pick<DailyTotalsTable, 'count' | 'bytes'>;

const add = compiled<DailyTotalsTable>()((db, p) =>
  db
    .insertInto('daily_totals')
    .values({ owner_id: p('owner_id'), kind: p('kind'), day: p('day'), count: p('count'), bytes: p('bytes') })
    .onConflict((conflict) =>
      conflict.columns(['owner_id', 'kind', 'day']).doUpdateSet((eb) => ({
        count: eb('daily_totals.count', '+', eb.ref('excluded.count')),
        bytes: eb('daily_totals.bytes', '+', eb.ref('excluded.bytes')),
      })),
    ),
);

/** Adds to the totals of that day. */
export async function addToDay(tx: Transaction<Tables>, row: DailyTotalsTable): Promise<void> {
  await add.all(tx, row);
}

/** One entry for every day, from the oldest to today; without a total if there is none. */
async function totalsByDay(
  reads: Kysely<Tables>,
  ownerId: string,
  kind: DailyTotalsTable['kind'],
  { now, days }: Span,
): Promise<{ readonly day: Micros; readonly total: DailyTotal | undefined }[]> {
  const today = now - (now % DAY);
  const first = today - (days - 1) * DAY;
  const rows = await reads
    .selectFrom('daily_totals')
    .select(['day', 'count', 'bytes'])
    .where('owner_id', '=', ownerId)
    .where('kind', '=', kind)
    .where((eb) => eb.between('day', first, today))
    .execute();
  const known = new Map(rows.map((row) => [row.day, row]));
  return Array.from({ length: days }, (_, index) => {
    const day = first + index * DAY;
    return { day, total: known.get(day) };
  });
}

/** Sets today's storage of each account. One pass over an index: about 15 ms for 100,000 directories. */
export async function noteStorage({ database: { db }, clock }: { database: Pick<Database, 'db'>; clock: Clock }) {
  const now = clock.now();
  const today = [sql.lit('storage').as('kind'), sql.lit(now - (now % DAY)).as('day'), sql.lit(0).as('count')] as const;
  await db
    .insertInto('daily_totals')
    .columns(['owner_id', 'kind', 'day', 'count', 'bytes'])
    .expression((eb) =>
      eb
        .selectFrom('directories')
        .select(({ fn }) => ['account_id as owner_id', ...today, fn.sum<number>('storage_bytes').as('bytes')])
        .where('deleted_at', 'is', null)
        .groupBy('account_id')
        // In the same order on every node, so that two nodes do not deadlock.
        .orderBy('account_id'),
    )
    .onConflict((conflict) =>
      conflict.columns(['owner_id', 'kind', 'day']).doUpdateSet((eb) => ({ bytes: eb.ref('excluded.bytes') })),
    )
    .execute();
}

export interface DayOfUploads {
  /** The start of the day in UTC. */
  readonly day: Micros;
  readonly uploads: number;
  readonly bytes: number;
}

/** One entry for every day, including those without uploads. */
export async function uploadsByDay(reads: Kysely<Tables>, accountId: string, span: Span): Promise<DayOfUploads[]> {
  const days = await totalsByDay(reads, accountId, 'uploads', span);
  return days.map(({ day, total }) => ({ day, uploads: total?.count ?? 0, bytes: total?.bytes ?? 0 }));
}

/** The account's stored bytes by day; undefined for days without a measurement. */
export async function storageByDay(
  reads: Kysely<Tables>,
  accountId: string,
  span: Span,
): Promise<(number | undefined)[]> {
  return (await totalsByDay(reads, accountId, 'storage', span)).map(({ total }) => total?.bytes);
}

export interface Refusals {
  readonly byDay: readonly number[];
  /** Until when sshd's log has been read; undefined if it was never found. */
  readonly knownUntil: Micros | undefined;
}

/** The number of refused logins on each day. */
export async function refusalsByDay(reads: Kysely<Tables>, accountId: string, span: Span): Promise<Refusals> {
  const { at } = await reads
    .selectFrom('login_log')
    .select(({ fn }) => fn.max<Micros | null>('read_until').as('at'))
    .executeTakeFirstOrThrow();
  const days = await totalsByDay(reads, accountId, 'refusals', span);
  return { byDay: days.map(({ total }) => total?.count ?? 0), knownUntil: at ?? undefined };
}
