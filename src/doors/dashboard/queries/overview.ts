/** The numbers on the overview. Each query takes the same time for any number of uploads. */
import type { Kysely } from 'kysely';
import type { Micros } from '../../../foundation/base/clock.ts';
import type { Tables } from '../../../foundation/db/schema.ts';
import { type Span, totalsByDay } from '../../../rules/history/daily-totals.ts';

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

export interface Stored {
  readonly directories: number;
  readonly bytes: number;
}

/** Accounts with at least this many directories are counted once a minute, since 100,000 directories take 10 ms. */
const MANY = 10_000;
const KEPT_MS = 60_000;

/** An account's storage. The numbers of a large account are up to a minute old. */
export function createStored(reads: Kysely<Tables>): (accountId: string) => Promise<Stored> {
  const kept = new Map<string, { readonly stored: Stored; readonly until: number }>();
  return async (accountId) => {
    const known = kept.get(accountId);
    if (known && performance.now() < known.until) return known.stored;
    const stored = await storedIn(reads, accountId);
    if (stored.directories >= MANY) kept.set(accountId, { stored, until: performance.now() + KEPT_MS });
    return stored;
  };
}

export async function storedIn(reads: Kysely<Tables>, accountId: string): Promise<Stored> {
  const { directories, bytes } = await reads
    .selectFrom('directories')
    .select(({ fn }) => [fn.countAll<number>().as('directories'), fn.sum<number | null>('storage_bytes').as('bytes')])
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .executeTakeFirstOrThrow();
  return { directories, bytes: bytes ?? 0 };
}

export interface Begun {
  readonly hasKey: boolean;
  readonly newest: { readonly id: string; readonly webhook_url: string | null } | undefined;
  readonly hasUpload: boolean;
  /** Whether a receiver has accepted one of the newest deliveries. */
  readonly isDelivered: boolean;
}

/** How many of the newest deliveries are searched for one that was delivered. */
const MOST_SEARCHED = 1000;

/** How far an account has come with its first steps. */
export async function begunIn(reads: Kysely<Tables>, accountId: string): Promise<Begun> {
  const key = await reads
    .selectFrom('api_keys')
    .select('id')
    .where('account_id', '=', accountId)
    .where('revoked_at', 'is', null)
    .limit(1)
    .executeTakeFirst();
  const uploaded = await reads
    .selectFrom('directories')
    .select('last_upload_at')
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .orderBy('last_upload_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  const latest = reads
    .selectFrom('deliveries')
    .select('state')
    .where('account_id', '=', accountId)
    .orderBy('inserted_at', 'desc')
    .limit(MOST_SEARCHED);
  const delivered = await reads
    .selectFrom(latest.as('latest'))
    .select('state')
    .where('state', '=', 'delivered')
    .limit(1)
    .executeTakeFirst();
  return {
    hasKey: key !== undefined,
    newest: await newestDirectory(reads, accountId),
    hasUpload: (uploaded?.last_upload_at ?? 0) > 0,
    isDelivered: delivered !== undefined,
  };
}

/** The newest directory, for the links of the first steps. */
function newestDirectory(reads: Kysely<Tables>, accountId: string) {
  return reads
    .selectFrom('directories')
    .select(['id', 'webhook_url'])
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .orderBy('inserted_at', 'desc')
    .limit(1)
    .executeTakeFirst();
}
