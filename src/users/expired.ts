/** Removes links that are too old and sessions that have ended. A clock that jumps makes nothing old. */
import type { ClockLead } from '../clock-lead.ts';
import type { Micros } from '../clock.ts';
import type { Database } from '../db/open.ts';
import { BATCH, inBatches } from '../history/batches.ts';
import { liveSince } from './sessions.ts';

export async function removeExpired(
  { database, clockLead }: { readonly database: Database; readonly clockLead: ClockLead },
  signal: AbortSignal,
): Promise<void> {
  const { now } = await clockLead();
  await inBatches(() => removeLinks(database, now), signal);
  await inBatches(() => removeSessions(database, now), signal);
}

async function removeLinks({ db }: Database, now: Micros): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('user_links')
    .where('hash', 'in', (from) =>
      from.selectFrom('user_links').select('hash').where('expires_at', '<=', now).limit(BATCH).forUpdate().skipLocked(),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
}

async function removeSessions({ db }: Database, now: Micros): Promise<number> {
  const { seen, since } = liveSince(now);
  const { numDeletedRows } = await db
    .deleteFrom('user_sessions')
    .where('id', 'in', (from) =>
      from
        .selectFrom('user_sessions')
        .select('id')
        .where((is) => is.or([is('seen_at', '<=', seen), is('inserted_at', '<=', since)]))
        .limit(BATCH)
        .forUpdate()
        .skipLocked(),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
}
