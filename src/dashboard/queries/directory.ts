/** Queries for the overview of one directory. Each uses an index. */
import type { Kysely } from 'kysely';
import { DAY, type Micros } from '../../base/clock.ts';
import type { Tables } from '../../db/schema.ts';
import type { Span } from './overview.ts';

export interface DirectoryDay {
  /** Its start in UTC. */
  readonly day: Micros;
  readonly uploads: number;
  readonly bytes: number;
  /** The stored bytes; undefined before anything was known. */
  readonly stored: number | undefined;
}

/** Every day, also those without a change: then the directory held what it held before. */
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

/** The newest refusal that sshd's log tells of. */
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

/** When a delivery was last asked for that has been delivered. */
export async function lastDelivered(reads: Kysely<Tables>, directoryId: string): Promise<Micros | undefined> {
  const row = await reads
    .selectFrom('deliveries')
    .select('inserted_at')
    .where('directory_id', '=', directoryId)
    .where('state', '=', 'delivered')
    .orderBy('inserted_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row?.inserted_at;
}
