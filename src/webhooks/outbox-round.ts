/**
 * A round of the outbox in one statement, for PostgreSQL, where several machines claim from it. With SQLite,
 * `webhooks/queue.ts` does the same row by row. Rows that another machine has locked are skipped, and times are by the
 * database's clock.
 */
import { type Kysely, sql } from 'kysely';
import type { Micros } from '../base/clock.ts';
import { compiled } from '../db/compiled.ts';
import type { DeliveriesTable, DeliveryState, DirectoriesTable, Tables } from '../db/schema.ts';
import { serverTime } from '../db/shared.ts';

export interface RoundOptions {
  readonly ended: readonly EndedAttempt[];
  /** How many deliveries to claim for each destination, those due longest first. */
  readonly turns: readonly { readonly destination: string; readonly count: number }[];
  /** How long a claim holds. */
  readonly lease: Micros;
  /** How many waiting deliveries or expired leases may become due; 0 for none. */
  readonly ripen: number;
  /** The number of the last attempt: a delivery whose lease expires in it fails. */
  readonly lastAttempt: number;
  /** The error noted for an attempt whose lease has ended. */
  readonly died: string;
}

export interface EndedAttempt {
  /** The delivery's id. */
  readonly id: string;
  readonly attempts: number;
  readonly state: DeliveryState;
  /** The wait until the delivery is due, in µs; null when it is finished. */
  readonly wait: Micros | null;
  /** The destination to move the delivery to; null to leave it. */
  readonly destination: string | null;
  /** Whether the attempt does not count. */
  readonly isSpared: boolean;
  readonly status: number | null;
  readonly latency: Micros;
  readonly error: string | null;
  readonly response: Buffer | null;
}

export interface RoundRow
  extends
    Pick<
      DeliveriesTable,
      'id' | 'directory_id' | 'account_id' | 'upload_id' | 'destination' | 'body' | 'inserted_at' | 'attempts'
    >,
    Pick<DirectoriesTable, 'webhook_url'> {
  readonly webhook_secret: string | null;
  readonly next_webhook_secret: string | null;
}

interface Parameters extends Pick<RoundOptions, 'lease' | 'ripen' | 'lastAttempt' | 'died'> {
  readonly ids: readonly string[];
  readonly attempts: readonly number[];
  readonly states: readonly string[];
  readonly waits: readonly (number | null)[];
  readonly lines: readonly (string | null)[];
  readonly spared: readonly boolean[];
  readonly statuses: readonly (number | null)[];
  readonly latencies: readonly number[];
  readonly errors: readonly (string | null)[];
  readonly responses: readonly (Buffer | null)[];
  readonly destinations: readonly string[];
  readonly counts: readonly number[];
}

/**
 * All parts of the statement see the rows as they were before it. A delivery whose attempt is recorded here is not
 * claimed in the same round, nor made due by its lease. Result rows for deliveries that became due have a destination
 * and a null `id`.
 *
 * Machines wait for each other only in `held`, which locks rows in the order of their ids before any other lock is
 * taken. So they cannot deadlock.
 */
const round = compiled<Parameters>()((_, p) => ({
  compile: () =>
    sql<RoundRow | { id: null; destination: string }>`
      with clock as materialized (select ${serverTime} as now),
      ended as materialized (
        select * from unnest(
          ${p('ids')}::text[], ${p('attempts')}::bigint[], ${p('states')}::text[], ${p('waits')}::bigint[],
          ${p('lines')}::text[], ${p('spared')}::boolean[], ${p('statuses')}::bigint[], ${p('latencies')}::bigint[],
          ${p('errors')}::text[], ${p('responses')}::bytea[]
        ) as e(id, attempts, state, wait, line, spared, status, latency, error, response)
      ),
      held as materialized (
        select d.id from deliveries d join ended e on e.id = d.id and e.attempts = d.attempts
        where d.state = 'running' order by d.id for no key update of d
      ),
      concluded as (
        update deliveries d set
          state = e.state,
          attempts = e.attempts - e.spared::int,
          destination = coalesce(e.line, d.destination),
          due_at = clock.now + e.wait,
          finished_at = case when e.wait is null then clock.now end
        from ended e, clock
        where d.id in (select id from held) and d.id = e.id and d.state = 'running' and d.attempts = e.attempts
        returning e.*
      ),
      noted as (
        update attempts a set
          finished_at = clock.now, status = c.status, latency_us = c.latency, error = c.error, response = c.response
        from concluded c, clock
        where a.delivery_id = c.id and a.number = c.attempts and not c.spared
      ),
      forgotten as (
        delete from attempts a using concluded c where a.delivery_id = c.id and a.number = c.attempts and c.spared
      ),
      ripe as materialized (
        select d.id, d.attempts, d.state = 'running' as died
        from deliveries d, clock
        where ${p('ripen')}::bigint > 0 and d.state in ('running', 'waiting') and d.due_at <= clock.now
          and d.id <> all (${p('ids')}::text[]) and (select count(*) from held) >= 0
        order by d.due_at limit ${p('ripen')}::bigint for no key update of d skip locked
      ),
      given_up as (
        update deliveries d set state = 'failed', due_at = null, finished_at = clock.now
        from ripe, clock where d.id = ripe.id and ripe.died and ripe.attempts >= ${p('lastAttempt')}::bigint
      ),
      ripened as (
        update deliveries d set state = 'queued', due_at = clock.now
        from ripe, clock where d.id = ripe.id and not (ripe.died and ripe.attempts >= ${p('lastAttempt')}::bigint)
        returning d.destination
      ),
      died as (
        update attempts a set finished_at = clock.now, error = ${p('died')}::text
        from ripe, clock where a.delivery_id = ripe.id and a.number = ripe.attempts and ripe.died
      ),
      due as materialized (
        select next.id, next.directory_id
        from unnest(${p('destinations')}::text[], ${p('counts')}::bigint[]) as turn(destination, count)
        cross join lateral (
          select d.id, d.directory_id from deliveries d
          where d.state = 'queued' and d.destination = turn.destination and (select count(*) from held) >= 0
          order by d.due_at limit turn.count for no key update skip locked
        ) next
      ),
      taken as (
        update deliveries d set
          state = 'running',
          attempts = d.attempts + 1,
          due_at = clock.now + ${p('lease')}::bigint,
          url = coalesce(o.webhook_url, w.url, d.url)
        from due
        left join directories o on o.id = due.directory_id
        left join account_webhooks w on w.account_id = o.account_id and o.uses_account_webhook = 1, clock
        where d.id = due.id
        returning d.id, d.directory_id, d.account_id, d.upload_id, d.destination, d.body, d.inserted_at, d.attempts,
          coalesce(o.webhook_url, w.url) as webhook_url,
          case when o.webhook_url is null then w.secret else o.webhook_secret end as webhook_secret,
          case when o.webhook_url is null then w.next_secret else o.next_webhook_secret end as next_webhook_secret
      ),
      begun as (
        insert into attempts (delivery_id, number, started_at) select taken.id, taken.attempts, clock.now from taken, clock
      )
      select * from taken
      union all
      select null, null, null, null, ripened.destination, null, null, null, null, null, null from ripened`.compile(_),
}));

/** @returns what was claimed, and the destination of each delivery that has become due. */
export async function outboxRound(
  db: Kysely<Tables>,
  { ended, turns, ...limits }: RoundOptions,
): Promise<{ claimed: RoundRow[]; ripened: string[] }> {
  const rows = await round.all(db, {
    ...limits,
    ids: ended.map(({ id }) => id),
    attempts: ended.map(({ attempts }) => attempts),
    states: ended.map(({ state }) => state),
    waits: ended.map(({ wait }) => wait),
    lines: ended.map(({ destination }) => destination),
    spared: ended.map(({ isSpared }) => isSpared),
    statuses: ended.map(({ status }) => status),
    latencies: ended.map(({ latency }) => latency),
    errors: ended.map(({ error }) => error),
    responses: ended.map(({ response }) => response),
    destinations: turns.map(({ destination }) => destination),
    counts: turns.map(({ count }) => count),
  });
  const claimed: RoundRow[] = [];
  const ripened: string[] = [];
  for (const row of rows) {
    if (row.id === null) ripened.push(row.destination);
    else claimed.push(row);
  }
  return { claimed, ripened };
}
