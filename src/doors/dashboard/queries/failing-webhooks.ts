/**
 * Directories whose webhooks are failing: a delivery has failed, and none after it was delivered. Tests do not count; a
 * successful replay ends this. Each query uses an index, however many deliveries a directory has.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Micros } from '../../../foundation/base/clock.ts';
import { listed } from '../../../foundation/db/dialect.ts';
import type { Tables } from '../../../foundation/db/schema.ts';

export interface FailingWebhook {
  /** How many have failed since the last one that was delivered, up to `COUNTED`. */
  readonly failed: number;
  /** The creation time of the oldest of these. */
  readonly since: Micros;
}

export interface FailingDirectory extends FailingWebhook {
  readonly id: string;
  readonly name: string;
}

export const COUNTED = 10_000;

/** At most this many directories with a failed delivery are checked. */
const CANDIDATES = 1000;

/** The directories among these whose webhooks are failing. */
export async function failingWebhooks(
  reads: Kysely<Tables>,
  ids: readonly string[],
): Promise<Map<string, FailingWebhook>> {
  const rows = await failing(reads, listed(reads, ids, 'text'), ids.length);
  return new Map(rows.map(({ id, failed, since }) => [id, { failed, since }]));
}

/** The account's directories whose webhooks are failing, those with the most failed deliveries first. */
export async function failingDirectories(
  reads: Kysely<Tables>,
  accountId: string,
  limit: number,
): Promise<FailingDirectory[]> {
  return failing(reads, withFailed(accountId), limit);
}

/** Finds the directories with a failed delivery by jumping through the index from one to the next. */
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
  const failed = sql`deliveries where state = 'failed' and directory_id = c.id and inserted_at > c.delivered_at`;
  // By the index of tests: `coalesce` keeps that of failed deliveries from being chosen.
  const tests = sql`deliveries
    where event = 'test' and coalesce(state, '') = 'failed' and directory_id = c.id and inserted_at > c.delivered_at`;
  const { rows } = await sql<FailingDirectory>`
    with candidate as materialized (
      select id, name, coalesce((
        select max(inserted_at) from deliveries where state = 'delivered' and event <> 'test' and directory_id = d.id
      ), 0) as delivered_at
      from directories as d
      where id in (${candidates}) and deleted_at is null and (
        webhook_url is not null
        or (
          uses_account_webhook = 1
          and exists (select 1 from account_webhooks where account_id = d.account_id and url is not null)
        )
      )
    )
    select id, name,
      (select count(*) from (select 1 from ${failed} limit ${COUNTED}) as counted) - (select count(*) from ${tests}) as failed,
      (select min(inserted_at) from ${failed} and event <> 'test') as since
    from candidate as c where exists (select 1 from ${failed} and event <> 'test')
    order by failed desc, since, id limit ${limit}`.execute(reads);
  return rows;
}
