/**
 * What each commit of the dispatcher does in the queue: by row with SQLite; in one statement on a database that several
 * machines share, where each of them claims from the whole queue and times are the database's.
 */
import type { Kysely } from 'kysely';
import type { Micros } from '../clock.ts';
import { outboxRound } from '../db/outbox-round.ts';
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

/** What a commit does in the queue beside its own work. */
export interface Round {
  readonly finished: readonly Ended[];
  /** Whether anything may have become due. */
  readonly isRipe: boolean;
  readonly now: Micros;
  /** Hears the destination of each delivery that has become due. */
  due(destinations: readonly string[]): void;
  /** What to claim. */
  turns(): readonly Turn[];
}

/** What has come of a round. */
export interface Taken {
  readonly claimed: readonly Claimed[];
  readonly moves: readonly Move[];
  /** Claimed in the line of another destination than their directory has now: they end at once, and go to that one's line. */
  readonly misplaced: readonly Ended[];
}

/** Records what has ended, makes due what has become so, and claims. On a shared database it needs no transaction. */
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
  // The statement has seen neither as due.
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
