/** Queries for the overview of one directory. Each uses an index. */
import type { Kysely } from 'kysely';
import { type Micros, hasExpired } from '../../../foundation/base/clock.ts';
import type { DirectoryRow, Tables } from '../../../foundation/db/schema.ts';
import { lacksKey } from '../../../rules/directories/access.ts';
import { auditSentence } from '../../../rules/history/audit-sentences.ts';
import { type Span, totalsByDay } from '../../../rules/history/daily-totals.ts';
import type { LoginLog } from '../../../operating/reports/login-log.ts';
import { attemptsOf } from '../../../operating/reports/logins.ts';
import type { LoginAttempt } from '../../../operating/reports/sshd-log.ts';
import type { AccessState } from '../environment.ts';

export interface DirectoryDay {
  /** The start of the day in UTC. */
  readonly day: Micros;
  readonly uploads: number;
  readonly bytes: number;
  /** The stored bytes; undefined before anything was known. */
  readonly stored: number | undefined;
}

/** One entry for every day. On a day without changes, the directory held as much as on the day before. */
export async function directoryDays(
  reads: Kysely<Tables>,
  { id, storage_bytes }: { readonly id: string; readonly storage_bytes: number },
  span: Span,
): Promise<DirectoryDay[]> {
  const uploads = await totalsByDay(reads, id, 'uploads', span);
  const measured = await totalsByDay(reads, id, 'storage', span);
  const [first] = measured;
  const before =
    first &&
    (await reads
      .selectFrom('daily_totals')
      .select('bytes')
      .where('owner_id', '=', id)
      .where('kind', '=', 'storage')
      .where('day', '<', first.day)
      .orderBy('day', 'desc')
      .limit(1)
      .executeTakeFirst());
  let stored = before?.bytes;
  return uploads.map(({ day, total }, index) => {
    stored = index === uploads.length - 1 ? storage_bytes : (measured[index]?.total?.bytes ?? stored);
    return { day, uploads: total?.count ?? 0, bytes: total?.bytes ?? 0, stored };
  });
}

/** Only a suspended directory needs a query: for who suspended it, and when. */
export async function accessState(
  reads: Kysely<Tables>,
  directory: Pick<DirectoryRow, 'id' | 'suspended' | 'expires_at' | 'auth_mode' | 'public_key'>,
  now: Micros,
): Promise<AccessState> {
  if (directory.suspended === 0) {
    if (hasExpired(directory, now)) return { kind: 'expired', at: directory.expires_at ?? now };
    return lacksKey(directory) ? { kind: 'no-key' } : { kind: 'live' };
  }
  const row = await reads
    .selectFrom('audit')
    .leftJoin('api_keys', 'api_keys.id', 'audit.key_id')
    .select(['audit.at', 'audit.action', 'audit.changes', 'audit.key_id', 'api_keys.name as key_name'])
    .where('audit.directory_id', '=', directory.id)
    .where('audit.action', '=', 'update')
    .where('audit.changes', 'like', '%"suspended":{"from":false,"to":true}%')
    .orderBy('audit.at', 'desc')
    .limit(1)
    .executeTakeFirst();
  return { kind: 'suspended', ...(row && { at: row.at, by: auditSentence(row).actor }) };
}

/** The latest login and the latest refusal in sshd's log, of those that are known. */
export async function lastAttempts(
  reads: Kysely<Tables>,
  logins: Pick<LoginLog, 'unwritten'>,
  { id, sftp_username }: Pick<DirectoryRow, 'id' | 'sftp_username'>,
): Promise<{ login: LoginAttempt | undefined; refusal: LoginAttempt | undefined }> {
  const unwritten = logins.unwritten(sftp_username) ?? [];
  const [login] = await attemptsOf(reads, id, unwritten, { kind: 'login', limit: 1 });
  const [refusal] = await attemptsOf(reads, id, unwritten, { kind: 'refused', limit: 1 });
  return { login, refusal };
}
