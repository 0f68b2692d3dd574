/**
 * The dispatcher: takes what is due out of the outbox and sends it, until it is closed.
 *
 * It works in rounds. One transaction records the attempts that have ended, makes due what has become due, and claims
 * the next turns; so a round costs one commit, however much it holds. With nothing to do it sleeps until it is woken
 * or the next retry is due. Waits are measured by a clock that nobody sets: when the wall clock jumps, the times in
 * the outbox are moved with it.
 */
import { setImmediate } from 'node:timers/promises';
import type { Transaction } from 'kysely';
import type { Clock, Micros } from '../clock.ts';
import { stepMeter } from '../clock-steps.ts';
import type { Database } from '../db/open.ts';
import type { Tables } from '../db/schema.ts';
import { errorMessage } from '../errors.ts';
import type { Log } from '../log.ts';
import { longestWait, type RetryDelays } from './backoff.ts';
import { claim, type Claimed, LEASE, type Turn } from './claim.ts';
import { finish, type Finished } from './finish.ts';
import { type AttemptSeen, nameOf, outcomeOf, report } from './outcome.ts';
import { queueReads } from './queries.ts';
import { createResults, GATHER_MS } from './results.ts';
import { clamp, ripen, shift } from './ripen.ts';
import { createRotation } from './rotation.ts';
import type { Answer, Send } from './send.ts';
import { createSleeper } from './sleeper.ts';
import { createSlots } from './slots.ts';

/** An answer within this makes a destination proven (see `slots.ts`), in µs. */
const QUICK: Micros = 1_000_000;
/** How long `close` lets attempts go on, in ms; then they end and the next start repeats them at once. */
const GRACE_MS = 3000;
/** Retries that come due within this, in ms, become due together: each by itself would cost a commit. */
const RIPEN_MS = 50;
/** The longest sleep, in ms: a look at the clock now and then. */
const SLEEP_MS = 10_000;
/** The wait after the database refused (a full disk, say), in ms. */
const TROUBLE_MS = 1000;

export interface DispatcherOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly retryDelays: RetryDelays;
  readonly send: Send;
  /** Called when an attempt has ended. */
  observe?(attempt: AttemptSeen): void;
}

export interface Dispatcher {
  /** To be called after each commit that enqueued something. */
  wake(): void;
  /** Claims nothing more, lets attempts end for up to 3 s, records all; nothing of it runs when it returns. */
  close(): Promise<void>;
}

/** What one round writes. */
interface Work {
  readonly finished: readonly Finished[];
  readonly turns: readonly Turn[];
  readonly isRipe: boolean;
}

export function startDispatcher(options: DispatcherOptions): Dispatcher {
  const { database, clock, log, retryDelays, send } = options;
  const queue = queueReads(database.reads);
  const slots = createSlots(() => performance.now());
  const rotation = createRotation(queue, slots);
  const sleeper = createSleeper();
  const results = createResults(() => performance.now());
  const clockStep = stepMeter(clock, () => performance.now());
  const stop = new AbortController();
  let closing = false;
  /** What a set clock has moved and the outbox has not followed yet. */
  let jump: Micros = 0;
  let isFirst = true;
  /** By a clock that nobody sets. */
  let ripenedAt = -Infinity;

  const attempt = async (delivery: Claimed, at: Micros): Promise<void> => {
    const answer = await send(delivery, at, stop.signal).catch(unexpected);
    const sinceClose = clock.now() - delivery.inserted_at;
    const finished = outcomeOf(delivery, answer, { retryDelays, sinceClose, isStopping: stop.signal.aborted });
    options.observe?.({ outcome: nameOf(finished), sinceClose });
    report(log, delivery, finished, sinceClose);
    const { destination } = delivery;
    slots.judge(destination, answer.status !== null && answer.latency < QUICK);
    results.end({ ...finished, destination });
    if (results.areGathered()) sleeper.rouseSoon();
    else sleeper.rouseIn(GATHER_MS);
  };

  /** Has the attempts that have ended recorded in this round. Their slots are free from here on. */
  const takeResults = (): void => {
    const fresh = results.take();
    for (const { destination } of fresh) slots.give(destination, 1);
    if (fresh.length > 0) rotation.restart();
  };

  /** Everything that one transaction writes. */
  const write = async (tx: Transaction<Tables>, { finished, turns, isRipe }: Work, now: Micros): Promise<Claimed[]> => {
    if (jump !== 0) await shift(tx, jump);
    if (isFirst) await clamp(tx, now + longestWait(retryDelays) + LEASE);
    await finish(tx, finished, now);
    if (isRipe) await ripen(tx, now);
    return claim(tx, turns, now);
  };

  const giveUnused = (turns: readonly Turn[], claimed: readonly Claimed[]): void => {
    const used = Map.groupBy(claimed, ({ destination }) => destination);
    for (const { destination, count } of turns) slots.give(destination, count - (used.get(destination)?.length ?? 0));
  };

  /** Writes all that, and begins the attempts that are claimed with it. */
  const commit = async (work: Work, now: Micros): Promise<void> => {
    let claimed: readonly Claimed[] = [];
    try {
      claimed = await database.db.transaction().execute((tx) => write(tx, work, now));
    } finally {
      giveUnused(work.turns, claimed);
    }
    results.recorded();
    jump = 0;
    isFirst = false;
    if (work.isRipe) {
      rotation.restart();
      ripenedAt = performance.now();
    }
    results.begin(claimed.length);
    for (const delivery of claimed) void attempt(delivery, now);
  };

  /** One round; says for how many ms there is nothing to do, 0 when there may be more. */
  const round = async (): Promise<number> => {
    jump += clockStep();
    const now = clock.now();
    const timed = ((await queue.nextTimed()) ?? Infinity) + jump;
    const ripenIn = Math.max((timed - now) / 1000, RIPEN_MS - (performance.now() - ripenedAt));
    const isRipe = ripenIn <= 0;
    if (results.areGathered()) takeResults();
    const { turns, complete } = closing ? { turns: [], complete: true } : await rotation.next();
    // The commit is made anyway.
    if (turns.length > 0) takeResults();
    const finished = results.taken();
    if (finished.length > 0 || turns.length > 0 || isRipe || jump !== 0 || isFirst) {
      await commit({ finished, turns, isRipe }, now);
      return 0;
    }
    if (!complete) return 0;
    return Math.min(SLEEP_MS, ripenIn, slots.heldBackFor() ?? Infinity, results.waiting() > 0 ? GATHER_MS : Infinity);
  };

  const isDone = (): boolean =>
    closing && results.underWay() === 0 && results.waiting() === 0 && results.taken().length === 0;
  const run = async (): Promise<void> => {
    while (!isDone()) {
      try {
        const idleFor = await round();
        if (idleFor > 0) await sleeper.sleep(idleFor);
        else await setImmediate();
      } catch (error) {
        log.error({ error: errorMessage(error) }, 'the webhook outbox cannot be written; trying again');
        // What cannot be recorded now is repeated when its lease has ended.
        if (closing && results.underWay() === 0) return;
        await sleeper.sleep(TROUBLE_MS);
      }
    }
  };

  const running = run();
  return {
    wake() {
      rotation.restart();
      sleeper.rouse();
    },
    async close() {
      closing = true;
      const grace = setTimeout(() => stop.abort(), GRACE_MS);
      sleeper.rouse();
      await running;
      clearTimeout(grace);
    },
  };
}

function unexpected(error: unknown): Answer {
  return { ok: false, status: null, latency: 0, error: errorMessage(error), response: null };
}
