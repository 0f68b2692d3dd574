/**
 * The work of each commit in the outbox: row by row with SQLite, or in one statement on a database that several
 * machines share, where each machine claims from the whole queue and times are by the database's clock.
 */
import type { Kysely } from 'kysely';
import type { Micros } from '../base/clock.ts';
import { outboxRound } from './outbox-round.ts';
import type { Tables } from '../db/schema.ts';
import { isShared } from '../db/shared.ts';
import { destinationOf } from './outbox.ts';
import {
  claim,
  type Claimed,
  DIED,
  finish,
  type Finished,
  LEASE,
  MAX_ATTEMPTS,
  type Move,
  RIPEN,
  ripen,
  stateAfter,
  type Turn,
} from './queue.ts';

export interface Ended extends Finished {
  readonly destination: string;
}

/** The work for one commit. */
export interface Round {
  readonly finished: readonly Ended[];
  /** Whether retries or expired leases may have become due. */
  readonly isRipe: boolean;
  readonly now: Micros;
  /** Called with the destination of each delivery that has become due. */
  due(destinations: readonly string[]): void;
  /** The turns to claim for. */
  turns(): readonly Turn[];
}

/** The result of a round. */
export interface Taken {
  readonly claimed: readonly Claimed[];
  readonly moves: readonly Move[];
  /**
   * Deliveries claimed under a destination that their directory no longer has. They end at once, and move to the
   * present one.
   */
  readonly misplaced: readonly Ended[];
}

/** Records ended attempts, makes deliveries due, and claims new ones. On a shared database it needs no transaction. */
export async function doRound(db: Kysely<Tables>, round: Round): Promise<Taken> {
  return isShared(db) ? roundAtOnce(db, round) : roundByRow(db, round);
}

async function roundByRow(tx: Kysely<Tables>, { finished, isRipe, now, due, turns }: Round): Promise<Taken> {
  await finish(tx, finished, now);
  due([...(isRipe ? await ripen(tx, now) : []), ...handedBack(finished)]);
  return { ...(await claim(tx, turns(), now)), misplaced: [] };
}

async function roundAtOnce(db: Kysely<Tables>, { finished, isRipe, due, turns }: Round): Promise<Taken> {
  const claims = turns();
  if (finished.length === 0 && claims.length === 0 && !isRipe) return { claimed: [], moves: [], misplaced: [] };
  const ended = finished.map((attempt) => {
    const { state, wait } = stateAfter(attempt);
    return { ...attempt, state, wait, isSpared: attempt.isSpared ?? false, destination: attempt.movedTo ?? null };
  });
  const round = await outboxRound(db, {
    ended,
    turns: claims,
    lease: LEASE,
    ripen: isRipe ? RIPEN : 0,
    lastAttempt: MAX_ATTEMPTS,
    died: DIED,
  });
  // The statement itself did not claim deliveries that it made due or that were handed back.
  due([...round.ripened, ...handedBack(finished)]);
  const claimed: Claimed[] = [];
  const misplaced: Ended[] = [];
  for (const row of round.claimed) {
    const { id, attempts, destination, account_id: account, webhook_url: url } = row;
    const movedTo = url === null ? destination : destinationOf(account, url);
    if (movedTo === destination) claimed.push(row);
    else misplaced.push({ ...UNASKED, id, attempts, destination, movedTo });
  }
  return { claimed, moves: [], misplaced };
}

const UNASKED = {
  ok: false,
  status: null,
  latency: 0,
  error: null,
  response: null,
  retryIn: 0,
  isSpared: true,
} as const;

function handedBack(finished: readonly Ended[]): string[] {
  return finished.filter(({ retryIn }) => retryIn === 0).map(({ destination, movedTo }) => movedTo ?? destination);
}
