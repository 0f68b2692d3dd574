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
 * and a later claim has another number, so whoever lost the lease cannot finish in somebody else's name.
 */
import { sql, type Transaction } from 'kysely';
import { type Micros, SECOND } from '../clock.ts';
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

/** Takes the deliveries that have been due longest of each destination. */
export async function claim(tx: Transaction<Tables>, turns: readonly Turn[], now: Micros): Promise<Claimed[]> {
  const claimed: Claimed[] = [];
  for (const { destination, count } of turns) {
    const rows = await tx
      .updateTable('deliveries')
      .set((eb) => ({ state: 'running', attempts: eb('attempts', '+', 1), due_at: now + LEASE }))
      .where('id', 'in', (eb) =>
        eb
          .selectFrom('deliveries')
          .select('id')
          .where('state', '=', sql.lit('queued'))
          .where('destination', '=', destination)
          .orderBy('due_at')
          .limit(count),
      )
      .returning(['id', 'directory_id', 'destination', 'url', 'body', 'signature', 'inserted_at', 'attempts'])
      .execute();
    claimed.push(...rows);
  }
  if (claimed.length > 0) {
    await tx
      .insertInto('attempts')
      .values(claimed.map((row) => ({ delivery_id: row.id, number: row.attempts, started_at: now })))
      .execute();
  }
  return claimed;
}
