/** The numbers on Home. Each query takes the same time for any number of uploads. */
import { type Kysely, sql } from 'kysely';
import { DAY, type Micros } from '../../../foundation/base/clock.ts';
import { among } from '../../../foundation/db/dialect.ts';
import type { Tables } from '../../../foundation/db/schema.ts';
import { isOver } from './failed-login.ts';
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

export interface LatestFile {
  readonly directory_id: string;
  readonly at: Micros;
  readonly path: string | null;
}

/** The newest uploads are searched for among this many entries of the history. */
const SEARCHED = 500;

/** The account's newest uploads, of those that came lately. */
export async function latestFiles(reads: Kysely<Tables>, accountId: string, limit: number): Promise<LatestFile[]> {
  const newest = reads
    .selectFrom('transfers')
    .select(['id', 'directory_id', 'at', 'path', 'event'])
    .where('account_id', '=', accountId)
    .orderBy('at', 'desc')
    .limit(SEARCHED);
  return reads
    .selectFrom(newest.as('newest'))
    .select(['directory_id', 'at', 'path'])
    .where('event', '=', 'uploaded')
    .orderBy('at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}

/** A directory that customers fail to log in to. */
export interface LoginProblem {
  readonly directory_id: string;
  /** How many logins have failed since the last one that succeeded. */
  readonly count: number;
  /** The last failed login; undefined if the directory's settings let nobody log in. */
  readonly last: { readonly at: Micros; readonly address: string | null; readonly text: string } | undefined;
}

/** How many of the last day's logins are looked at. */
const LOOKED_AT = 500;

/**
 * The directories that accept public keys only and have none, and those to which the last login of the last day has failed, unless its
 * cause is gone.
 */
export async function loginProblems(
  reads: Kysely<Tables>,
  accountId: string,
  { now, limit }: { readonly now: Micros; readonly limit: number },
): Promise<LoginProblem[]> {
  const closed = await reads
    .selectFrom('directories')
    .select('id')
    .where('account_id', '=', accountId)
    // As in the index.
    .where(sql<boolean>`auth_mode = 'public_key' and public_key is null and deleted_at is null`)
    .where('suspended', '=', 0)
    .orderBy('inserted_at', 'desc')
    .limit(limit)
    .execute();
  const attempts = await reads
    .selectFrom('logins')
    .select(['directory_id', 'at', 'kind', 'address', 'text'])
    .where('account_id', '=', accountId)
    .where('at', '>', now - DAY)
    .orderBy('at', 'desc')
    .orderBy('id', 'desc')
    .limit(LOOKED_AT)
    .execute();
  const failing = Array.from(
    Map.groupBy(attempts, ({ directory_id }) => directory_id),
    ([directory_id, own]) => {
      const success = own.findIndex(({ kind }) => kind === 'login');
      return { directory_id, count: success === -1 ? own.length : success, last: own[0], login: own[success] };
    },
  ).filter(({ count }) => count > 0);
  const directories = await reads
    .selectFrom('directories')
    .select(['id', 'suspended', 'expires_at', 'allowed_networks'])
    .where(
      'id',
      'in',
      among(
        reads,
        failing.map(({ directory_id }) => directory_id),
      ),
    )
    .where('deleted_at', 'is', null)
    .execute();
  const settings = new Map(directories.map((directory) => [directory.id, directory]));
  const known = new Set(closed.map(({ id }) => id));
  return [
    ...closed.map(({ id }) => ({ directory_id: id, count: 0, last: undefined })),
    ...failing.flatMap(({ directory_id, count, last, login }) => {
      const directory = settings.get(directory_id);
      if (!last || !directory || known.has(directory_id) || isOver(last, { login, directory, now })) return [];
      return [{ directory_id, count, last }];
    }),
  ].slice(0, limit);
}

export interface Begun {
  readonly hasKey: boolean;
  /** The newest directory, for the links. */
  readonly newest: { readonly id: string } | undefined;
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
  const newest = await reads
    .selectFrom('directories')
    .select('id')
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .orderBy('inserted_at', 'desc')
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
    newest,
    hasUpload: (uploaded?.last_upload_at ?? 0) > 0,
    isDelivered: delivered !== undefined,
  };
}
