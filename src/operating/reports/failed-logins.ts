/** Customers who cannot log in: the last failed login of a directory, and the directories of an account with one, while its cause holds. */
import { type Kysely, sql } from 'kysely';
import { DAY, hasExpired, type Micros } from '../../foundation/base/clock.ts';
import { among } from '../../foundation/db/dialect.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { addressToAllow } from './login-rules.ts';
import { isWithin } from '../../rules/directories/networks.ts';
import type { LoginLog } from './login-log.ts';
import { attemptsOf } from './logins.ts';
import type { LoginAttempt } from './sshd-log.ts';

export interface FailedLogin extends LoginAttempt {
  /** How often it has failed so since the last login, up to `COUNTED`. */
  readonly times: number;
}

export interface LastLogins {
  readonly login: LoginAttempt | undefined;
  readonly failed: FailedLogin | undefined;
}

/** At most this many failed logins are counted. */
export const COUNTED = 100;

/** The latest login and the latest failed one in sshd's log, of those that are known. */
export async function lastLogins(
  reads: Kysely<Tables>,
  logins: Pick<LoginLog, 'unwritten'>,
  { id, account_id, sftp_username }: Pick<DirectoryRow, 'id' | 'account_id' | 'sftp_username'>,
): Promise<LastLogins> {
  const unwritten = logins.unwritten(sftp_username) ?? [];
  const owner = { accountId: account_id, directoryId: id };
  const [login] = await attemptsOf(reads, owner, unwritten, { kind: 'login', limit: 1 });
  const all = await attemptsOf(reads, owner, unwritten, { kind: 'refused', limit: COUNTED });
  const [failed] = all;
  const isSame = ({ at, address, text }: LoginAttempt): boolean =>
    at > (login?.at ?? 0) && address === failed?.address && text === failed.text;
  return { login, failed: failed && { ...failed, times: Math.max(all.filter(isSame).length, 1) } };
}

interface Now {
  /** The last login that succeeded. */
  readonly login: LoginAttempt | undefined;
  readonly directory: Pick<DirectoryRow, 'suspended' | 'expires_at' | 'allowed_networks'>;
  readonly now: Micros;
}

/** Whether a failed login is settled: another one succeeded since, or the setting that refused it has changed. */
export function isOver(failed: LoginAttempt, { login, directory, now }: Now): boolean {
  if (login !== undefined && login.at > failed.at) return true;
  if (failed.text.endsWith('suspended')) return directory.suspended === 0;
  if (failed.text.endsWith('expired')) return !hasExpired(directory, now);
  const address = addressToAllow(failed);
  return address !== undefined && isWithin(JSON.parse(directory.allowed_networks) as string[], address);
}

/** The head of the pages does not have older ones. */
const RECENT = 30 * DAY;

/** The last failed login, if it is recent and its cause still holds. */
export async function failedLogin(
  reads: Kysely<Tables>,
  logins: Pick<LoginLog, 'unwritten'>,
  directory: DirectoryRow,
  now: Micros,
): Promise<FailedLogin | undefined> {
  const { login, failed } = await lastLogins(reads, logins, directory);
  if (!failed || failed.at < now - RECENT || isOver(failed, { login, directory, now })) return undefined;
  return failed;
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
