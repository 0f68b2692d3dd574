/**
 * Which webhooks fail, what is still to be sent, and how a directory's webhook is doing. A webhook fails when a delivery has failed, and
 * none after it was delivered. Tests do not count; sending one again with success ends this. Each query uses an index, however many
 * deliveries a directory has.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import { among, listed } from '../../foundation/db/dialect.ts';
import type { Owner } from '../../foundation/db/lists.ts';
import type { AttemptsTable, DeliveryRow, Tables } from '../../foundation/db/schema.ts';
import { IN_STATE } from './delivery-list.ts';

/** A directory with failed deliveries that were not sent again, or that are about to be. */
export interface Problem {
  readonly id: string;
  readonly name: string;
  /** Where its webhooks go now. */
  readonly url: string;
  /** How many failed deliveries need attention, up to `COUNTED`. */
  readonly open: number;
  /** How many are about to be sent again, up to `COUNTED`. */
  readonly sending: number;
  /** The creation time of the oldest of all these. */
  readonly since: Micros;
  /** The creation time of the last one that was delivered; 0 if there is none. */
  readonly delivered_at: Micros;
  /** The last attempt of the newest of these; undefined if nothing is known about it any more. */
  readonly last: Pick<AttemptsTable, 'status' | 'error' | 'response' | 'started_at'> | undefined;
}

export const COUNTED = 10_000;

/** At most this many directories with a failed delivery are checked. */
const CANDIDATES = 1000;

/** The directories among these whose webhooks are failing, with the creation time of the oldest delivery that has failed since the last success. */
export async function failingWebhooks(reads: Kysely<Tables>, ids: readonly string[]): Promise<Map<string, Micros>> {
  const failed = sql`deliveries
    where state = 'failed' and event <> 'test' and directory_id = c.id and inserted_at > c.delivered_at`;
  const { rows } = await sql<{ readonly id: string; readonly since: Micros }>`
    with candidate as materialized (${candidates(listed(reads, ids, 'text'))})
    select id, (select inserted_at from ${failed} order by inserted_at limit 1) as since
    from candidate as c where exists (select 1 from ${failed})`.execute(reads);
  return new Map(rows.map(({ id, since }) => [id, since]));
}

/** The directories among these whose webhooks go somewhere. */
function candidates(ids: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`
    select d.id, d.name, coalesce(d.webhook_url, w.url) as url, coalesce((
      select inserted_at from deliveries where state = 'delivered' and event <> 'test' and directory_id = d.id
      order by inserted_at desc limit 1
    ), 0) as delivered_at
    from directories as d
    left join account_webhooks as w on w.account_id = d.account_id and d.uses_account_webhook = 1
    where d.id in (${ids}) and d.deleted_at is null and coalesce(d.webhook_url, w.url) is not null`;
}

/** The problems of the account, or of one of its directories: those with the most to send first. */
export async function problemsOf(
  reads: Kysely<Tables>,
  { accountId, directoryId }: Owner,
  limit: number,
): Promise<Problem[]> {
  const failed = sql`deliveries where state = 'failed' and directory_id = c.id and event <> 'test' and replayed_as is null`;
  const marked = sql`deliveries where replay_at is not null and directory_id = c.id`;
  const count = (some: RawBuilder<unknown>) =>
    sql`(select count(*) from (select 1 from ${some} limit ${COUNTED}) as counted)`;
  const { rows } = await sql<Omit<Problem, 'last'> & { readonly newest: string }>`
    with candidate as materialized (
      ${candidates(directoryId === undefined ? withFailed(accountId) : sql`select ${directoryId} as id`)}
    )
    select c.*, ${count(sql`${failed} and replay_at is null`)} as open, ${count(marked)} as sending,
      (select inserted_at from ${failed} order by inserted_at limit 1) as since,
      (select id from ${failed} order by inserted_at desc, id desc limit 1) as newest
    from candidate as c where exists (select 1 from ${failed})
    order by open desc, since, id limit ${limit}`.execute(reads);
  const attempts = await reads
    .selectFrom('attempts')
    .select(['delivery_id', 'status', 'error', 'response', 'started_at'])
    .where(
      'delivery_id',
      'in',
      among(
        reads,
        rows.map(({ newest }) => newest),
      ),
    )
    .orderBy('number')
    .execute();
  const last = new Map(attempts.map((attempt) => [attempt.delivery_id, attempt]));
  return rows.map(({ newest, ...row }) => ({ ...row, last: last.get(newest) }));
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

export interface LastAttempt extends Pick<AttemptsTable, 'status' | 'error' | 'started_at'>, Pick<DeliveryRow, 'url'> {
  readonly isTest: boolean;
}

export interface WebhookState {
  /** Since when it fails; undefined if it does not. */
  readonly failingSince: Micros | undefined;
  /** The latest attempt to the present URL that has ended; undefined before the first. */
  readonly last: LastAttempt | undefined;
}

/** The latest attempt is searched for among this many deliveries of each state: the newest that ended, and the oldest pending, which are tried first. */
const SEARCHED = 20;

/** @param url where webhooks go now. */
export async function webhookState(reads: Kysely<Tables>, directoryId: string, url: string): Promise<WebhookState> {
  const failing = await failingWebhooks(reads, [directoryId]);
  return { failingSince: failing.get(directoryId), last: await lastAttempt(reads, directoryId, url) };
}

async function lastAttempt(reads: Kysely<Tables>, directoryId: string, url: string): Promise<LastAttempt | undefined> {
  const some = (state: keyof typeof IN_STATE) => {
    const first = reads
      .selectFrom('deliveries')
      // Only what the index of failed deliveries has: otherwise SQLite reads all deliveries for the failed ones.
      .select('id')
      .where('directory_id', '=', directoryId)
      .where(IN_STATE[state])
      .orderBy('inserted_at', state === 'pending' ? 'asc' : 'desc')
      .limit(SEARCHED);
    return reads.selectFrom(first.as('first')).selectAll();
  };
  const searched = some('pending').unionAll(some('delivered')).unionAll(some('failed'));
  const row = await reads
    .selectFrom(searched.as('searched'))
    .innerJoin('deliveries as d', 'd.id', 'searched.id')
    .innerJoin('attempts', 'attempts.delivery_id', 'searched.id')
    .select(['d.event', 'd.url', 'attempts.status', 'attempts.error', 'attempts.started_at'])
    .where('d.url', '=', url)
    .where('attempts.finished_at', 'is not', null)
    .orderBy('attempts.started_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row && { ...row, isTest: row.event === 'test' };
}
