/** What the overview counts. Each answer takes the same time however many uploads there were. */
import type { Kysely } from 'kysely';
import { DAY, type Micros } from '../../clock.ts';
import type { Tables } from '../../db/schema.ts';

export interface DayOfUploads {
  /** Its start in UTC. */
  readonly day: Micros;
  readonly uploads: number;
  readonly bytes: number;
}

/** The last `days` days, today the last; those without uploads too. */
export async function uploadsByDay(
  reads: Kysely<Tables>,
  accountId: string,
  { now, days }: { now: Micros; days: number },
): Promise<DayOfUploads[]> {
  const today = now - (now % DAY);
  const first = today - (days - 1) * DAY;
  const rows = await reads
    .selectFrom('daily_uploads')
    .select(['day', 'uploads', 'bytes'])
    .where('account_id', '=', accountId)
    .where((eb) => eb.between('day', first, today))
    .execute();
  const known = new Map(rows.map((row) => [row.day, row]));
  return Array.from({ length: days }, (_, index) => {
    const day = first + index * DAY;
    return known.get(day) ?? { day, uploads: 0, bytes: 0 };
  });
}

export interface Stored {
  readonly directories: number;
  readonly bytes: number;
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

/** The directory that was made last, for those who begin. */
export function newestDirectory(reads: Kysely<Tables>, accountId: string) {
  return reads
    .selectFrom('directories')
    .select(['id', 'webhook_url'])
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .orderBy('inserted_at', 'desc')
    .executeTakeFirst();
}
