/**
 * The queue, and its first transition: claiming.
 *
 *   queued ──claim──▶ running ──finish──▶ delivered                    2xx in time
 *     ▲                  │    ├─finish──▶ waiting ──ripen──▶ queued    failed, attempts left
 *     │                  │    └─finish──▶ failed                       failed, the fourth
 *     ├──────finish──────┤                                             given back by a service that stops
 *     └──────ripen───────┴────ripen───▶ failed                         the lease ended: its process died
 *
 * `queued` rows are due. Claiming counts the attempt and writes its row before anything is sent, so a crash can repeat
 * an attempt but not exceed four. The lease is the pair of delivery and attempt number: both are needed to finish,
 * and a later claim has another number, so whoever lost the lease cannot finish in somebody else's name. (Only who holds
 * a lease can give its number back, when the receiver was not asked: see `finish.ts`.)
 */
import { sql, type Transaction } from 'kysely';
import { type Micros, SECOND } from '../clock.ts';
import { compiled } from '../db/compiled.ts';
import type { Tables } from '../db/schema.ts';

/** How long an attempt may stay unfinished before it counts as dead. It ends by itself after at most 6 s. */
export const LEASE: Micros = 20 * SECOND;

/** How many deliveries of a destination to take. */
export interface Turn {
  readonly destination: string;
  readonly count: number;
}

export interface Claimed {
  readonly id: string;
  readonly directory_id: string;
  readonly destination: string;
  readonly url: string;
  readonly body: Buffer;
  readonly signature: string;
  /** When its upload was closed. */
  readonly inserted_at: Micros;
  /** The number of this attempt, 1 to 4. */
  readonly attempts: number;
}

const due = compiled<Turn>()((db, p) =>
  db
    .selectFrom('deliveries')
    .select(['id', 'directory_id', 'destination', 'url', 'body', 'signature', 'inserted_at', 'attempts'])
    .where('state', '=', sql.lit('queued'))
    .where('destination', '=', p('destination'))
    .orderBy('due_at')
    .limit(p('count')),
);
const take = compiled<Pick<Claimed, 'id' | 'attempts'> & { leaseEnd: Micros }>()((db, p) =>
  db
    .updateTable('deliveries')
    .set({ state: 'running', attempts: p('attempts'), due_at: p('leaseEnd') })
    .where('id', '=', p('id')),
);
const begin = compiled<Pick<Claimed, 'id' | 'attempts'> & { now: Micros }>()((db, p) =>
  db.insertInto('attempts').values({ delivery_id: p('id'), number: p('attempts'), started_at: p('now') }),
);

/**
 * Takes the deliveries that have been due longest of each destination. One by one: a statement that finds and changes
 * them at once takes SQLite twice as long for one, and is no faster for many.
 */
export async function claim(tx: Transaction<Tables>, turns: readonly Turn[], now: Micros): Promise<Claimed[]> {
  const claimed: Claimed[] = [];
  for (const turn of turns) {
    for (const row of await due.all(tx, turn)) claimed.push({ ...row, attempts: row.attempts + 1 });
  }
  for (const { id, attempts } of claimed) {
    await take.all(tx, { id, attempts, leaseEnd: now + LEASE });
    await begin.all(tx, { id, attempts, now });
  }
  return claimed;
}
