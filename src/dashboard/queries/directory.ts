/** Queries for the overview of one directory. Each uses an index. */
import type { Kysely } from 'kysely';
import { DAY, type Micros } from '../../base/clock.ts';
import type { Tables } from '../../db/schema.ts';
import type { Span } from './overview.ts';

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
  { now, days }: Span,
): Promise<DirectoryDay[]> {
  const today = now - (now % DAY);
  const first = today - (days - 1) * DAY;
  const rows = await reads
    .selectFrom('directory_days')
    .selectAll()
    .where('directory_id', '=', id)
    .where((eb) => eb.between('day', first, today))
    .execute();
  const before = await reads
    .selectFrom('directory_days')
    .select('stored')
    .where('directory_id', '=', id)
    .where('day', '<', first)
    .where('stored', 'is not', null)
    .orderBy('day', 'desc')
    .limit(1)
    .executeTakeFirst();
  const known = new Map(rows.map((row) => [row.day, row]));
  let stored = before?.stored ?? undefined;
  return Array.from({ length: days }, (_, index) => {
    const day = first + index * DAY;
    const row = known.get(day);
    stored = day === today ? storage_bytes : (row?.stored ?? stored);
    return { day, uploads: row?.uploads ?? 0, bytes: row?.bytes ?? 0, stored };
  });
}

/** The latest refused login in sshd's log. */
export function lastRefusal(reads: Kysely<Tables>, directoryId: string) {
  return reads
    .selectFrom('logins')
    .select(['at', 'address', 'text'])
    .where('directory_id', '=', directoryId)
    .where('kind', '=', 'refused')
    .orderBy('at', 'desc')
    .limit(1)
    .executeTakeFirst();
}
