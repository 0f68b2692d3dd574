/**
 * Counts the requests of each account by minute, over all machines on a PostgreSQL database, by the database's clock.
 */
import { type Kysely, sql } from 'kysely';
import type { Micros } from '../base/clock.ts';
import { compiled } from './compiled.ts';
import type { Tables } from './schema.ts';
import { serverTime } from './shared.ts';

const MINUTE_MICROS = 60_000_000;

const count = compiled<{ account: string; limit: number }>()((db, p) => ({
  compile: () =>
    sql<{ requests: number | null; remaining: Micros }>`
      with clock as materialized (select ${serverTime} as now),
      counted as (
        insert into request_counts (account_id, minute, requests)
        select ${p('account')}, now / ${sql.lit(MINUTE_MICROS)}, 1 from clock
        on conflict (account_id, minute) do update set requests = request_counts.requests + 1
        where request_counts.requests < ${p('limit')}
        returning requests
      )
      select (select requests from counted) as requests, ${sql.lit(MINUTE_MICROS)} - now % ${sql.lit(MINUTE_MICROS)} as remaining
      from clock`.compile(db),
}));

/**
 * Counts a request, unless it exceeds the limit.
 * @returns the time until the minute ends, for a request over the limit; otherwise undefined.
 */
export async function countRequest(db: Kysely<Tables>, account: string, limit: number): Promise<Micros | undefined> {
  const counted = await count.first(db, { account, limit });
  return counted?.requests === null ? counted.remaining : undefined;
}

/** Deletes the counts of all other minutes, even later ones: the server's clock may have been set back. */
export async function forgetOtherMinutes(db: Kysely<Tables>): Promise<void> {
  await db
    .deleteFrom('request_counts')
    .where('minute', '!=', sql<number>`${serverTime} / ${sql.lit(MINUTE_MICROS)}`)
    .execute();
}
