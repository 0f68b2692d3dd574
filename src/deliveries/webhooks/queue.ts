/**
 * The queue of deliveries: the only place that changes their state.
 *
 *   queued ──claim──▶ running ──finish──▶ delivered                    2xx in time
 *     ▲                  │    ├─finish──▶ waiting ─promote─▶ queued    failed, attempts left
 *     │                  │    └─finish──▶ failed                       failed, the fourth
 *     ├──────finish──────┤                                             handed back by a stopping service
 *     └─────promote──────┴───promote──▶ failed                         the lease expired: its process died
 *
 * Claiming counts the attempt and writes its row before anything is sent: a crash can repeat an attempt, but there are
 * never more than four. The lease is the pair of delivery and attempt number, so a process that has lost it changes nothing.
 *
 * Each claim reads the URL and the secrets from the directory, or from its account if the directory has no URL of its
 * own. A delivery whose directory has another destination by now is not claimed but moved to that destination.
 *
 * Several machines may share the database. Each claims from the whole queue and skips rows that another has locked. A
 * round waits for another machine only at its beginning (`hold`), where it locks rows in the order of their ids. So rounds
 * cannot deadlock.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely';
import { type Micros, SECOND } from '../../foundation/base/clock.ts';
import { compiled, compiledEach, compiledInsert, compiledRows } from '../../foundation/db/compiled.ts';
import type { DeliveryRow, Tables } from '../../foundation/db/schema.ts';
import { destinationOf } from './outbox.ts';
import { present } from '../../foundation/db/shared.ts';
import { LONGEST_WAIT } from './retry-after.ts';

/** How many attempts a delivery gets in all (specification, "Limits"). */
const MAX_ATTEMPTS = 4;

/** How long an attempt may run before its process counts as dead. An attempt times out after at most 6 s. */
export const LEASE: Micros = 20 * SECOND;

/**
 * How many deliveries become due in one transaction. Further ones follow in the next, so that nothing else waits long.
 */
const MOST_PROMOTED = 100;

/** How many deliveries move to another destination in one transaction. */
const MOVED = 100;

/** How many destinations are listed at once. */
export const LISTED = 256;

/** The error of an attempt whose lease has ended. */
const DIED = 'berth stopped during this attempt';

/** `state in ('running', 'waiting')`, as the index on `due_at` has it. */
const TIMED = sql<boolean>`state in ('running', 'waiting')`;

/** How many deliveries of a destination to take. */
export interface Turn {
  readonly destination: string;
  readonly count: number;
}

interface Lease {
  /** The delivery's id. */
  readonly id: string;
  /** The number of this attempt, 1 to 4. */
  readonly attempts: number;
}

export interface Claimed extends Lease {
  readonly directory_id: string;
  readonly account_id: string;
  readonly upload_id: string | null;
  readonly destination: string;
  /** The current URL of the directory or its account; null when there is none any more. */
  readonly webhook_url: string | null;
  readonly webhook_secret: string | null;
  readonly next_webhook_secret: string | null;
  readonly body: Buffer;
  /** When its upload was closed. */
  readonly inserted_at: Micros;
}

/** `count` deliveries have moved to another destination. */
export interface Move {
  readonly from: string;
  readonly to: string;
  readonly count: number;
}

/** The receiver's answer. */
interface AttemptResult {
  readonly status: number | null;
  /** From the start of the attempt to the response's head, or to the failure, in µs. Null when its process died. */
  readonly latency: Micros | null;
  readonly error: string | null;
  readonly response: Buffer | null;
}

export interface Finished extends Lease, AttemptResult {
  readonly latency: Micros;
  readonly ok: boolean;
  /** The wait before the next attempt, in µs; undefined for no further attempt. 0 hands the delivery back at once. */
  readonly retryIn: Micros | undefined;
  /** The receiver was not asked: the attempt does not count. */
  readonly isSpared?: boolean;
}

export interface Ended extends Finished {
  readonly destination: string;
}

/** The work for one commit. */
interface Round {
  readonly finished: readonly Ended[];
  /** Whether retries or expired leases may have become due. */
  readonly promotes: boolean;
  readonly now: Micros;
  /** Called with the destination of each delivery that has become due. */
  due(destinations: readonly string[]): void;
  /** The turns to claim for. */
  turns(): readonly Turn[];
}

export interface Taken {
  readonly claimed: readonly Claimed[];
  readonly moves: readonly Move[];
}

type Outcome = Pick<Finished, 'ok' | 'retryIn'>;

/** The directory's secret if it has a URL of its own, else its account's. */
function ofReceiver(own: string, account: string): RawBuilder<string | null> {
  return sql`case when of.webhook_url is null then ${sql.ref(`account.${account}`)} else ${sql.ref(`of.${own}`)} end`;
}

const nextDue = compiledEach<Turn>()(
  (db, p) =>
    db
      .selectFrom('deliveries')
      .select([
        'id',
        'directory_id',
        'account_id',
        'upload_id',
        'destination',
        'body',
        'inserted_at',
        'attempts',
        'url',
      ])
      .where('state', '=', sql.lit('queued'))
      .where('destination', '=', p('destination'))
      .orderBy('due_at')
      .limit(p('count'))
      .forNoKeyUpdate()
      .skipLocked(),
  (rows, db) =>
    db
      .selectFrom(rows.as('d'))
      .selectAll('d')
      .leftJoin('directories as of', 'of.id', 'd.directory_id')
      .leftJoin('account_webhooks as account', (join) =>
        join.onRef('account.account_id', '=', 'of.account_id').on('of.uses_account_webhook', '=', sql.lit(1)),
      )
      .select(({ fn }) => fn.coalesce('of.webhook_url', 'account.url').as('webhook_url'))
      .select([
        ofReceiver('webhook_secret', 'secret').as('webhook_secret'),
        ofReceiver('next_webhook_secret', 'next_secret').as('next_webhook_secret'),
      ]),
);
const take = compiledRows<Lease & { leaseEnd: Micros; url: string }>(
  ['id', 'attempts', 'leaseEnd', 'url'],
  (rows) => sql`
    with taken(id, attempts, lease_end, url) as (values ${rows})
    update deliveries set state = 'running', attempts = taken.attempts, due_at = taken.lease_end, url = taken.url
    from taken where deliveries.id = taken.id`,
  { id: 'text', attempts: 'bigint', leaseEnd: 'bigint', url: 'text' },
);
const move = compiled<{ directory: string; from: string; to: string }>()((db, p) =>
  db
    .updateTable('deliveries')
    .set({ destination: p('to') })
    .where('id', 'in', (from) =>
      from
        .selectFrom('deliveries')
        .select('id')
        .where('state', '=', sql.lit('queued'))
        .where('destination', '=', p('from'))
        .where('directory_id', '=', p('directory'))
        .orderBy('due_at')
        .limit(MOVED)
        .forNoKeyUpdate()
        .skipLocked(),
    )
    .returning('id'),
);
const begin = compiledInsert('attempts', ['delivery_id', 'number', 'started_at']);
/** Locks deliveries whose attempts have ended. */
const hold = compiledRows<Pick<Lease, 'id'>, Lease>(
  ['id'],
  (rows, db) =>
    db
      .selectFrom('deliveries')
      .select(['id', 'attempts'])
      .where('state', '=', sql.lit('running'))
      .where('id', 'in', sql<string>`(values ${rows})`)
      .orderBy('id')
      .forNoKeyUpdate(),
  { id: 'text' },
);
const note = compiledRows<Lease & AttemptResult & { now: Micros }>(
  ['id', 'attempts', 'now', 'status', 'latency', 'error', 'response'],
  (rows) => sql`
    with ended(id, attempts, now, status, latency, error, response) as (values ${rows})
    update attempts set
      finished_at = ended.now, status = ended.status, latency_us = ended.latency, error = ended.error,
      response = ended.response
    from ended where attempts.delivery_id = ended.id and attempts.number = ended.attempts`,
  {
    id: 'text',
    attempts: 'bigint',
    now: 'bigint',
    status: 'bigint',
    latency: 'bigint',
    error: 'text',
    response: 'bytea',
  },
);
const forget = compiledRows<Lease>(
  ['id', 'attempts'],
  (rows) => sql`delete from attempts where (delivery_id, number) in (values ${rows})`,
  { id: 'text', attempts: 'bigint' },
);
const conclude = compiledRows<Lease & Pick<DeliveryRow, 'state' | 'due_at' | 'finished_at'>>(
  ['id', 'attempts', 'state', 'due_at', 'finished_at'],
  (rows) => sql`
    with ended(id, attempts, state, due_at, finished_at) as (values ${rows})
    update deliveries set
      state = ended.state, attempts = ended.attempts, due_at = ended.due_at, finished_at = ended.finished_at
    from ended where deliveries.id = ended.id`,
  { id: 'text', attempts: 'bigint', state: 'text', due_at: 'bigint', finished_at: 'bigint' },
);
/** Jumps through the index from one destination to the next: its cost does not grow with the queues. */
const queuedAfter = compiled<{ after: string; limit: number }>()((db, p) => ({
  compile: () =>
    sql<{ destination: string }>`
      with recursive queued(destination) as (
        select min(destination) from deliveries where state = 'queued' and destination > ${p('after')}
        union all
        select (select min(destination) from deliveries where state = 'queued' and destination > queued.destination)
        from queued where queued.destination is not null
      )
      select destination from queued where destination is not null limit ${p('limit')}`.compile(db),
}));

/** Records ended attempts, makes deliveries due, and claims new ones. */
export async function doRound(tx: Kysely<Tables>, { finished, promotes, now, due, turns }: Round): Promise<Taken> {
  await finish(tx, finished, now);
  const handedBack = finished.filter(({ retryIn }) => retryIn === 0).map(({ destination }) => destination);
  due([...(promotes ? await promoteDue(tx, now) : []), ...handedBack]);
  return claim(tx, turns(), now);
}

/**
 * Claims the deliveries of each destination that have been due longest. Moves those whose directory has another
 * destination by now.
 */
export async function claim(tx: Kysely<Tables>, turns: readonly Turn[], now: Micros): Promise<Taken> {
  const claimed: Claimed[] = [];
  const taken: (Lease & { leaseEnd: Micros; url: string })[] = [];
  const moves = new Map<string, Move>();
  for (const { url, ...row } of await nextDue(tx, turns)) {
    const { id, directory_id: directory, webhook_url: current, destination: from } = row;
    const to = current === null || current === url ? from : destinationOf(row.account_id, current);
    if (to !== from) {
      const name = `${directory} ${from}`;
      if (!moves.has(name)) moves.set(name, { from, to, count: (await move.all(tx, { directory, from, to })).length });
      continue;
    }
    const attempts = row.attempts + 1;
    taken.push({ id, attempts, leaseEnd: now + LEASE, url: current ?? url });
    claimed.push({ ...row, attempts });
  }
  await take(tx, taken);
  await begin(
    tx,
    claimed.map(({ id, attempts }) => ({ delivery_id: id, number: attempts, started_at: now })),
  );
  return { claimed, moves: [...moves.values()] };
}

/**
 * Records the outcomes of attempts. An attempt changes nothing if its lease is lost or its delivery was deleted with
 * the directory.
 */
export async function finish(tx: Kysely<Tables>, finished: readonly Finished[], now: Micros): Promise<void> {
  const running = await hold(
    tx,
    finished.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
  );
  const leases = new Map(running.map(({ id, attempts }) => [id, attempts]));
  const held = finished.filter(({ id, attempts }) => leases.get(id) === attempts);
  const { spared = [], counted = [] } = Object.groupBy(held, ({ isSpared }) => (isSpared ? 'spared' : 'counted'));
  await note(
    tx,
    counted.map((attempt) => ({ ...attempt, now })),
  );
  await forget(tx, spared);
  await conclude(
    tx,
    held.map((attempt) => {
      const { id, attempts, isSpared = false } = attempt;
      return { id, attempts: isSpared ? attempts - 1 : attempts, ...columnsAfter(attempt, now) };
    }),
  );
}

function columnsAfter({ ok, retryIn }: Outcome, now: Micros): Pick<DeliveryRow, 'state' | 'due_at' | 'finished_at'> {
  if (ok) return { state: 'delivered', due_at: null, finished_at: now };
  if (retryIn === undefined) return { state: 'failed', due_at: null, finished_at: now };
  return { state: retryIn > 0 ? 'waiting' : 'queued', due_at: now + retryIn, finished_at: null };
}

/**
 * Requeues deliveries whose time has come, at most `MOST_PROMOTED` of them: retries, and attempts whose process died. A
 * delivery that died in its last attempt fails.
 * @returns the destination of each of them.
 */
export async function promoteDue(tx: Kysely<Tables>, now: Micros): Promise<string[]> {
  const promoted = await tx
    .selectFrom('deliveries')
    .select(['id', 'state', 'attempts', 'destination'])
    .where(TIMED)
    .where('due_at', '<=', now)
    .orderBy('due_at')
    .limit(MOST_PROMOTED)
    .forNoKeyUpdate()
    .skipLocked()
    .execute();
  const died = promoted.filter(({ state }) => state === 'running');
  await note(
    tx,
    died.map(({ id, attempts }) => ({ id, attempts, now, status: null, latency: null, error: DIED, response: null })),
  );
  await conclude(
    tx,
    promoted.map(({ id, state, attempts }) => {
      const isOver = state === 'running' && attempts >= MAX_ATTEMPTS;
      return { id, attempts, ...columnsAfter({ ok: false, retryIn: isOver ? undefined : 0 }, now) };
    }),
  );
  return promoted.map(({ destination }) => destination);
}

/**
 * Up to `LISTED` destinations with queued deliveries, in the order of their names. Fewer mean that these are the last.
 */
export async function queuedDestinations(reads: Kysely<Tables>, after: string): Promise<string[]> {
  return (await queuedAfter.all(reads, { after, limit: LISTED })).map(({ destination }) => destination);
}

// Deliveries with a time in the outbox: retries, and attempts whose lease has not expired.

const earliest = compiled<{ now: Micros }>()((db, p) =>
  db
    .selectFrom('deliveries')
    .select((eb) => eb('due_at', '-', present(db, p('now'))).as('wait'))
    .where(TIMED)
    .orderBy('due_at')
    .limit(1),
);

/** How many µs are left until the next retry is due or the next lease expires. Negative when that is overdue. */
export async function nextTimed(reads: Kysely<Tables>, now: Micros): Promise<Micros | undefined> {
  return (await earliest.first(reads, { now }))?.wait ?? undefined;
}

/** Moves the time of every retry and lease by as much as the wall clock was set, so that waits keep their length. */
export async function shift(tx: Kysely<Tables>, by: Micros): Promise<void> {
  await tx
    .updateTable('deliveries')
    .set((eb) => ({ due_at: eb('due_at', '+', by) }))
    .where(TIMED)
    .execute();
}

/**
 * Limits times that are further ahead than any wait of berth's own, because the clock was set back while berth was
 * down. A wait that a receiver asked for stays, unless the attempt before it seems to be in the future.
 */
export async function clamp(tx: Kysely<Tables>, now: Micros, longest: Micros): Promise<void> {
  await tx
    .updateTable('deliveries')
    .set({ due_at: now + longest })
    .where(TIMED)
    .where('due_at', '>', now + longest)
    .where(({ exists, not, selectFrom }) =>
      not(
        exists(
          selectFrom('attempts')
            .select('number')
            .whereRef('delivery_id', '=', 'deliveries.id')
            .whereRef('number', '=', 'deliveries.attempts')
            .where('finished_at', '<=', now)
            .where(({ eb, ref }) => eb(ref('deliveries.due_at'), '<=', eb('finished_at', '+', LONGEST_WAIT))),
        ),
      ),
    )
    .execute();
}
