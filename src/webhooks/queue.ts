/**
 * The queue of deliveries: the only place that changes their state.
 *
 *   queued ──claim──▶ running ──finish──▶ delivered                    2xx in time
 *     ▲                  │    ├─finish──▶ waiting ──ripen──▶ queued    failed, attempts left
 *     │                  │    └─finish──▶ failed                       failed, the fourth
 *     ├──────finish──────┤                                             handed back by a service that stops
 *     └──────ripen───────┴────ripen───▶ failed                         the lease ended: its process died
 *
 * Claiming counts the attempt and writes its row before anything is sent: a crash can repeat an attempt, but there are
 * never more than four. The lease is the pair of delivery and attempt number, so a process that has lost it changes nothing.
 *
 * Each claim reads URL and secrets from the directory, or from its account where it has no URL of its own. A delivery whose directory has got another destination meanwhile is
 * not claimed but moved into that one's line.
 *
 * On a database that several machines share, each of them claims from the whole queue, in one statement (`rounds.ts`).
 */
import { type Kysely, type RawBuilder, sql } from 'kysely';
import { type Micros, SECOND } from '../clock.ts';
import { compiled, compiledInsert } from '../db/compiled.ts';
import type { DeliveriesTable, DeliveryState, Tables } from '../db/schema.ts';
import { destinationOf } from './outbox.ts';

/** Attempts in all (specification, "Limits"). */
export const MAX_ATTEMPTS = 4;

/** How long an attempt may stay unfinished before it counts as dead. It ends by itself after at most 6 s. */
export const LEASE: Micros = 20 * SECOND;

/** Deliveries that ripen in one transaction; the rest follows in the next, so that nothing else waits long. */
export const RIPEN = 100;

/** Deliveries that move into another line in one transaction. */
const MOVED = 100;

/** Destinations listed at once. */
export const LISTED = 256;

/** Of an attempt whose lease has ended. */
export const DIED = 'berth stopped during this attempt';

/** `state in ('running', 'waiting')`, as the index on `due_at` has it. */
export const TIMED = sql<boolean>`state in ('running', 'waiting')`;

/** How many deliveries of a destination to take. */
export interface Turn {
  readonly destination: string;
  readonly count: number;
}

export interface Lease {
  /** Of the delivery. */
  readonly id: string;
  /** The number of this attempt, 1 to 4. */
  readonly attempts: number;
}

export interface Claimed extends Lease {
  readonly directory_id: string;
  readonly account_id: string;
  readonly upload_id: string | null;
  readonly destination: string;
  /** The directory's or its account's, now: null when there is none any more. */
  readonly webhook_url: string | null;
  readonly webhook_secret: string | null;
  readonly next_webhook_secret: string | null;
  readonly body: Buffer;
  /** When its upload was closed. */
  readonly inserted_at: Micros;
}

/** So many deliveries have got another destination. */
export interface Move {
  readonly from: string;
  readonly to: string;
  readonly count: number;
}

export interface Finished extends Lease {
  readonly ok: boolean;
  readonly status: number | null;
  /** From the start of the attempt to the response's head, or to the failure, in µs. */
  readonly latency: Micros;
  readonly error: string | null;
  readonly response: Buffer | null;
  /** The wait before the next attempt, in µs, if there is one: 0 hands the delivery back at once. */
  readonly retryIn: Micros | undefined;
  /** The receiver was not asked: the attempt does not count. */
  readonly isSpared?: boolean;
  /** The line that the delivery goes to; its own when left out. */
  readonly movedTo?: string;
}

type Outcome = Pick<Finished, 'ok' | 'retryIn'>;

/** A secret of the directory where it has a URL of its own, else its account's. */
function ofReceiver(own: string, account: string): RawBuilder<string | null> {
  return sql`case when of.webhook_url is null then ${sql.ref(`account.${account}`)} else ${sql.ref(`of.${own}`)} end`;
}

const due = compiled<Turn>()((db, p) =>
  db
    .selectFrom('deliveries as d')
    .leftJoin('directories as of', 'of.id', 'd.directory_id')
    .select([
      'd.id',
      'd.directory_id',
      'd.account_id',
      'd.upload_id',
      'd.destination',
      'd.body',
      'd.inserted_at',
      'd.attempts',
      'd.url',
    ])
    .leftJoin('account_webhooks as account', (join) =>
      join.onRef('account.account_id', '=', 'of.account_id').on('of.uses_account_webhook', '=', sql.lit(1)),
    )
    .select(({ fn }) => fn.coalesce('of.webhook_url', 'account.url').as('webhook_url'))
    .select(
      (
        [
          ['webhook_secret', 'secret'],
          ['next_webhook_secret', 'next_secret'],
        ] as const
      ).map(([own, account]) => ofReceiver(own, account).as(own)),
    )
    .where('d.state', '=', sql.lit('queued'))
    .where('d.destination', '=', p('destination'))
    .orderBy('d.due_at')
    .limit(p('count')),
);
const take = compiled<Lease & { leaseEnd: Micros; url: string }>()((db, p) =>
  db
    .updateTable('deliveries')
    .set({ state: 'running', attempts: p('attempts'), due_at: p('leaseEnd'), url: p('url') })
    .where('id', '=', p('id')),
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
        .limit(MOVED),
    )
    .returning('id'),
);
const begin = compiledInsert('attempts', ['delivery_id', 'number', 'started_at']);
const conclude = compiled<Lease & Pick<DeliveriesTable, 'state' | 'due_at' | 'finished_at'> & { counted: number }>()(
  (db, p) =>
    db
      .updateTable('deliveries')
      .set({ state: p('state'), attempts: p('counted'), due_at: p('due_at'), finished_at: p('finished_at') })
      .where('id', '=', p('id'))
      .where('state', '=', 'running')
      .where('attempts', '=', p('attempts'))
      .returning('id'),
);
const note = compiled<Omit<Finished, 'ok' | 'retryIn' | 'isSpared'> & { now: Micros }>()((db, p) =>
  db
    .updateTable('attempts')
    .set({
      finished_at: p('now'),
      status: p('status'),
      latency_us: p('latency'),
      error: p('error'),
      response: p('response'),
    })
    .where('delivery_id', '=', p('id'))
    .where('number', '=', p('attempts')),
);
const forget = compiled<Lease>()((db, p) =>
  db.deleteFrom('attempts').where('delivery_id', '=', p('id')).where('number', '=', p('attempts')),
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
/**
 * Takes the deliveries that have been due longest of each destination. One by one: a statement that finds and changes
 * them at once takes SQLite twice as long for one, and is no faster for many.
 */
export async function claim(
  tx: Kysely<Tables>,
  turns: readonly Turn[],
  now: Micros,
): Promise<{ claimed: Claimed[]; moves: Move[] }> {
  const claimed: Claimed[] = [];
  const moves: Move[] = [];
  for (const turn of turns) {
    const moved = new Set<string>();
    for (const { url, ...row } of await due.all(tx, turn)) {
      const { id, directory_id: directory, webhook_url: current } = row;
      if (moved.has(directory)) continue;
      const to = current === null || current === url ? row.destination : destinationOf(row.account_id, current);
      if (to !== row.destination) {
        const from = row.destination;
        moves.push({ from, to, count: (await move.all(tx, { directory, from, to })).length });
        moved.add(directory);
        continue;
      }
      const attempts = row.attempts + 1;
      await take.all(tx, { id, attempts, leaseEnd: now + LEASE, url: current ?? url });
      claimed.push({ ...row, attempts });
    }
  }
  await begin(
    tx,
    claimed.map(({ id, attempts }) => ({ delivery_id: id, number: attempts, started_at: now })),
  );
  return { claimed, moves };
}

/** Records what came of attempts. One whose lease is lost, or whose delivery went with its directory, changes nothing. */
export async function finish(tx: Kysely<Tables>, finished: Iterable<Finished>, now: Micros): Promise<void> {
  for (const attempt of finished) {
    const { id, attempts, isSpared = false } = attempt;
    const counted = isSpared ? attempts - 1 : attempts;
    const held = await conclude.first(tx, { id, attempts, counted, ...columnsAfter(attempt, now) });
    if (!held) continue;
    if (isSpared) await forget.all(tx, { id, attempts });
    else await note.all(tx, { ...attempt, now });
  }
}

/** @returns its state, and in how many µs it is due again, if it is. */
export function stateAfter({ ok, retryIn }: Outcome): { state: DeliveryState; wait: Micros | null } {
  if (ok) return { state: 'delivered', wait: null };
  if (retryIn === undefined) return { state: 'failed', wait: null };
  return { state: retryIn > 0 ? 'waiting' : 'queued', wait: retryIn };
}

function columnsAfter(outcome: Outcome, now: Micros) {
  const { state, wait } = stateAfter(outcome);
  return wait === null ? { state, due_at: null, finished_at: now } : { state, due_at: now + wait, finished_at: null };
}

/**
 * Makes due what has become due, at most 100 deliveries: retries, and attempts whose process died.
 * @returns the destination of each of them.
 */
export async function ripen(tx: Kysely<Tables>, now: Micros): Promise<string[]> {
  const ripe = await tx
    .selectFrom('deliveries')
    .select(['id', 'state', 'attempts', 'destination'])
    .where(TIMED)
    .where('due_at', '<=', now)
    .orderBy('due_at')
    .limit(RIPEN)
    .execute();
  for (const { id, state, attempts } of ripe) {
    const died = state === 'running';
    if (died) {
      await tx
        .updateTable('attempts')
        .set({ finished_at: now, error: DIED })
        .where('delivery_id', '=', id)
        .where('number', '=', attempts)
        .execute();
    }
    const next = columnsAfter({ ok: false, retryIn: died && attempts >= MAX_ATTEMPTS ? undefined : 0 }, now);
    await tx.updateTable('deliveries').set(next).where('id', '=', id).execute();
  }
  return ripe.map(({ destination }) => destination);
}

/** Up to 256 destinations that have deliveries queued, in the order of their names; fewer are the last. */
export async function queuedDestinations(reads: Kysely<Tables>, after: string): Promise<string[]> {
  return (await queuedAfter.all(reads, { after, limit: LISTED })).map(({ destination }) => destination);
}
