/** Removes links that are too old and sessions that have ended. A clock that jumps makes nothing old. */
import type { ClockLead } from '../db/clock-lead.ts';
import type { Database } from '../db/open.ts';
import { removeInBatches } from '../history/batches.ts';
import { liveSince } from './sessions.ts';

export async function removeExpired(
  { database, clockLead }: { readonly database: Database; readonly clockLead: ClockLead },
  signal: AbortSignal,
): Promise<void> {
  const { now } = await clockLead();
  const { db } = database;
  const links = db.selectFrom('user_links').select('hash').where('expires_at', '<=', now);
  await removeInBatches(db, { table: 'user_links', key: 'hash', found: links }, signal);
  const { seen, since } = liveSince(now);
  const sessions = db
    .selectFrom('user_sessions')
    .select('id')
    .where((is) => is.or([is('seen_at', '<=', seen), is('inserted_at', '<=', since)]));
  await removeInBatches(db, { table: 'user_sessions', key: 'id', found: sessions }, signal);
}
