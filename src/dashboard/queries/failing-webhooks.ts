/**
 * Whose webhooks fail now: the newest delivery that came to an end was given up, and none after it was delivered. So a test
 * is no sign of life, but a replay is. What it costs is bounded for each directory, however many deliveries it has.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Micros } from '../../clock.ts';
import type { Tables } from '../../db/schema.ts';

export interface FailingWebhook {
  /** How many were given up since the last one that was delivered, as far as `LOOKED_AT` goes. */
  readonly failed: number;
  /** When the oldest of them was asked for. */
  readonly since: Micros;
}

export interface FailingDirectory extends FailingWebhook {
  readonly id: string;
  readonly name: string;
}

/** Deliveries of one directory that are looked at, before its newest failed one and after it. */
const LOOKED_AT = 100;

/** Directories of an account that have a failed delivery, of which the failing ones are sought. */
const CANDIDATES = 1000;

/** Of those directories, the ones that fail. */
export async function failingWebhooks(
  reads: Kysely<Tables>,
  ids: readonly string[],
): Promise<Map<string, FailingWebhook>> {
  const rows = await failing(reads, sql`select value from json_each(${JSON.stringify(ids)})`, ids.length);
  return new Map(rows.map(({ id, failed, since }) => [id, { failed, since }]));
}

/** Of all directories of the account, the ones that have been failing longest first. */
export async function failingDirectories(
  reads: Kysely<Tables>,
  accountId: string,
  limit: number,
): Promise<FailingDirectory[]> {
  return failing(reads, withFailed(accountId), limit);
}

/** Jumps through the index from one directory to the next. */
function withFailed(accountId: string): RawBuilder<unknown> {
  const next = (after: RawBuilder<unknown>): RawBuilder<unknown> => sql`
    select min(directory_id) from deliveries
    where state = 'failed' and account_id = ${accountId} and directory_id > ${after}`;
  return sql`
    with recursive found(id) as (
      ${next(sql`''`)}
      union all
      select (${next(sql`found.id`)}) from found where found.id is not null
    )
    select id from found where id is not null limit ${CANDIDATES}`;
}

async function failing(
  reads: Kysely<Tables>,
  candidates: RawBuilder<unknown>,
  limit: number,
): Promise<FailingDirectory[]> {
  const { rows } = await sql<FailingDirectory>`
    with candidate as materialized (
      select id, name, (select max(inserted_at) from deliveries where state = 'failed' and directory_id = d.id) as at
      from directories as d
      where id in (${candidates}) and deleted_at is null and webhook_url is not null
    ), failing as materialized (
      select id, name, (
        select max(inserted_at) from (
          select state, inserted_at from deliveries
          where directory_id = c.id and inserted_at < c.at order by inserted_at desc limit ${LOOKED_AT}
        ) where state = 'delivered'
      ) as delivered_at
      from candidate as c
      where at is not null and not exists (
        select 1 from (
          select state from deliveries
          where directory_id = c.id and inserted_at > c.at order by inserted_at limit ${LOOKED_AT}
        ) where state = 'delivered'
      )
    ), run as (
      select id, name, (
        select json_array(count(*), min(inserted_at)) from (
          select inserted_at from deliveries
          where state = 'failed' and directory_id = f.id and inserted_at > coalesce(f.delivered_at, 0)
          order by inserted_at desc limit ${LOOKED_AT}
        )
      ) as counted
      from failing as f
    )
    select id, name, counted ->> 0 as failed, counted ->> 1 as since from run order by since, id limit ${limit}`.execute(
    reads,
  );
  return rows;
}
