/** What the head of a directory's pages says. Each query uses an index. */
import type { Kysely } from 'kysely';
import { hasExpired, type Micros } from '../../foundation/base/clock.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { lacksKey } from '../../rules/directories/update.ts';
import { auditSentence } from '../../rules/history/sentences.ts';
import type { AppContext } from '../web/context.ts';
import { receiverUrl } from '../../deliveries/webhooks/receiver-of.ts';
import type { AccessState, DirectoryStatus } from './environment.ts';
import { failedLogin } from '../../operating/reports/failed-logins.ts';
import { webhookState } from '../../deliveries/webhooks/health.ts';

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
  return { kind: 'suspended', ...(row && { at: row.at, by: auditSentence(row).who }) };
}

export async function directoryStatus(
  { database: { reads }, clock, sessions, logins }: AppContext,
  directory: DirectoryRow,
): Promise<DirectoryStatus> {
  const { id, sftp_username } = directory;
  const { last_upload_at: at } = await reads
    .selectFrom('directories')
    .select('last_upload_at')
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  const url = await receiverUrl(reads, directory);
  return {
    lastFile: at === 0 ? null : at,
    connected: sessions.of(sftp_username).length,
    webhook: url === null ? undefined : await webhookState(reads, id, url),
    failedLogin: await failedLogin(reads, logins, directory, clock.now()),
  };
}
