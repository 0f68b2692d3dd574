/** The last logins of a directory, and whether the cause of the last failed one still holds. */
import type { Kysely } from 'kysely';
import { DAY, hasExpired, type Micros } from '../../../foundation/base/clock.ts';
import type { DirectoryRow, Tables } from '../../../foundation/db/schema.ts';
import { addressToAllow } from '../../../operating/reports/login-rules.ts';
import { isWithin } from '../../../rules/directories/networks.ts';
import type { LoginLog } from '../../../operating/reports/login-log.ts';
import { attemptsOf } from '../../../operating/reports/logins.ts';
import type { LoginAttempt } from '../../../operating/reports/sshd-log.ts';

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
