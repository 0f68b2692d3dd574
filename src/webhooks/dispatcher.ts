/**
 * The dispatcher: claims what is due in the outbox and sends it, until it is closed.
 *
 * Every commit of its own, and every one that enqueues webhooks (`transact`), does all there is to do at that moment:
 * it records the attempts that have ended and claims what there is room for. So a webhook for a receiver that is not
 * busy costs no commit beside the one that records its upload. The rest is done in rounds: retries, leases that have
 * ended, and what had to wait for a slot. Waits are measured by the monotonic clock: when the wall clock is set, the
 * times in the outbox are moved with it.
 */
import { setImmediate } from 'node:timers/promises';
import type { Transaction } from 'kysely';
import PQueue from 'p-queue';
import type { Clock, Micros } from '../clock.ts';
import { stepMeter } from '../clock-steps.ts';
import type { Database } from '../db/open.ts';
import type { Tables } from '../db/schema.ts';
import { errorMessage } from '../errors.ts';
import type { Log } from '../log.ts';
import { type AttemptSeen, longestWait, nameOf, outcomeOf, report, type RetryDelays } from './outcome.ts';
import {
  clamp,
  claim,
  type Claimed,
  finish,
  type Finished,
  LEASE,
  nextTimed,
  ripen,
  shift,
  type Turn,
} from './queue.ts';
import type { Answer, Send } from './send.ts';
import { createSleeper } from './sleeper.ts';
import { createSlots } from './slots.ts';
import { createTurns } from './turns.ts';

/** An answer within this makes a destination proven (see `slots.ts`), in µs. */
const QUICK: Micros = 1_000_000;
/** How long attempts that have ended wait for others, to be recorded with one commit, in ms. */
const GATHER_MS = 5;
/** How long `close` lets attempts go on, in ms; then they end and the next start repeats them at once. */
const GRACE_MS = 3000;
/** Retries that come due within this, in ms, become due together: each by itself would cost a commit. */
const RIPEN_MS = 50;
/** The longest sleep, in ms: another process may have put something into the outbox (`replay.ts`). */
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

/** What a transaction gives, and the destinations of the webhooks that it has enqueued. */
export interface Enqueued<T> {
  readonly value: T;
  readonly destinations: readonly string[];
}

/** Runs a transaction that may enqueue webhooks. Those that there is room for are claimed in it and sent at once. */
export type Transact = <T>(work: (tx: Transaction<Tables>) => Promise<Enqueued<T>>) => Promise<T>;

export interface Dispatcher {
  readonly transact: Transact;
  /** Looks at the outbox now: somebody has changed it in a transaction of another kind. */
  wake(): void;
  /** Claims nothing more, lets attempts end for up to 3 s, records all; nothing of it runs when it returns. */
  close(): Promise<void>;
}

type Ended = Finished & Pick<Claimed, 'destination'>;

export function startDispatcher(options: DispatcherOptions): Dispatcher {
  const { database, clock, log, retryDelays, send } = options;
  const slots = createSlots(() => performance.now());
  const turns = createTurns(database.reads, slots);
  const sleeper = createSleeper();
  const clockStep = stepMeter(clock, () => performance.now());
  /** One transaction at a time, what follows from it included. */
  const serial = new PQueue({ concurrency: 1 });
  const stop = new AbortController();
  let closing = false;
  let underWay = 0;
  /** Attempts that have ended and hold their slots still. */
  let ended: Ended[] = [];
  /** When the first of them did. */
  let endedSince = 0;
  const unrecorded = new Set<Finished>();
  /** By how much the wall clock was set and the outbox has not followed yet. */
  let jump: Micros = 0;
  let isFirst = true;
  let ripenedAt = Number.NEGATIVE_INFINITY;

  async function attempt(delivery: Claimed): Promise<void> {
    const answer = await send(delivery, clock.now(), stop.signal).catch(unexpected);
    const sinceClose = clock.now() - delivery.inserted_at;
    const finished = outcomeOf(delivery, answer, { retryDelays, sinceClose, isStopping: stop.signal.aborted });
    options.observe?.({ outcome: nameOf(finished), sinceClose });
    report(log, delivery, finished, sinceClose);
    slots.judge(delivery.destination, answer.status !== null && answer.latency < QUICK);
    if (ended.length === 0) endedSince = performance.now();
    ended.push({ ...finished, destination: delivery.destination });
    underWay -= 1;
    sleeper.wakeIn(areGathered() ? 0 : GATHER_MS);
  }

  /** Whether enough have ended to be worth a commit; the others keep the processor busy meanwhile. */
  function areGathered(): boolean {
    return ended.length > 0 && (ended.length >= underWay || performance.now() - endedSince >= GATHER_MS);
  }

  /** Has what has ended recorded with the next commit, and its slots taken again. */
  function collect(): void {
    for (const finished of ended) {
      slots.give(finished.destination, 1);
      unrecorded.add(finished);
    }
    if (ended.length > 0) turns.restart();
    ended = [];
  }

  /** For each of these destinations as many turns as there is room for, their slots taken. */
  function turnsFor(destinations: readonly string[]): Turn[] {
    if (closing) return [];
    const wanted = Map.groupBy(destinations, (destination) => destination);
    return [...wanted].map(([destination, { length }]) => ({ destination, count: slots.take(destination, length) }));
  }

  /** What every transaction does beside its own work. */
  async function settle(
    tx: Transaction<Tables>,
    recorded: readonly Finished[],
    taken: readonly Turn[],
    isRipe: boolean,
  ): Promise<Claimed[]> {
    jump += clockStep();
    const now = clock.now();
    if (jump !== 0) await shift(tx, jump);
    if (isFirst) await clamp(tx, now + longestWait(retryDelays) + LEASE);
    await finish(tx, recorded, now);
    if (isRipe) await ripen(tx, now);
    return claim(tx, taken, now);
  }

  /** Commits `work` and all that, and begins the attempts that it has claimed. `taken` may grow until the work is done. */
  async function commit<T>(
    taken: readonly Turn[],
    isRipe: boolean,
    work: (tx: Transaction<Tables>) => Promise<T>,
  ): Promise<T> {
    let claimed: readonly Claimed[] = [];
    try {
      const done = await database.db.transaction().execute(async (tx) => {
        const value = await work(tx);
        const recorded = [...unrecorded];
        return { value, recorded, claimed: await settle(tx, recorded, taken, isRipe) };
      });
      claimed = done.claimed;
      for (const finished of done.recorded) unrecorded.delete(finished);
      jump = 0;
      isFirst = false;
      underWay += claimed.length;
      for (const delivery of claimed) void attempt(delivery);
      return done.value;
    } finally {
      const used = Map.groupBy(claimed, ({ destination }) => destination);
      for (const { destination, count } of taken) slots.give(destination, count - (used.get(destination)?.length ?? 0));
    }
  }

  function transact<T>(work: (tx: Transaction<Tables>) => Promise<Enqueued<T>>): Promise<T> {
    return serial.add(async () => {
      const taken: Turn[] = [];
      const { value, destinations } = await commit(taken, false, async (tx) => {
        const enqueued = await work(tx);
        collect();
        taken.push(...turnsFor(enqueued.destinations));
        return enqueued;
      });
      const begun = taken.reduce((sum, { count }) => sum + count, 0);
      if (begun < destinations.length) wake();
      return value;
    });
  }

  /** One round; says for how many ms there is nothing to do, 0 when there may be more. */
  async function round(): Promise<number> {
    jump += clockStep();
    const timed = ((await nextTimed(database.reads)) ?? Infinity) + jump;
    const ripenIn = Math.max((timed - clock.now()) / 1000, RIPEN_MS - (performance.now() - ripenedAt));
    const isRipe = ripenIn <= 0;
    if (areGathered()) collect();
    const { turns: taken, complete } = closing ? { turns: [], complete: true } : await turns.next();
    // The commit is made anyway.
    if (taken.length > 0) collect();
    if (unrecorded.size > 0 || taken.length > 0 || isRipe || jump !== 0 || isFirst) {
      await commit(taken, isRipe, () => Promise.resolve());
      if (isRipe) {
        turns.restart();
        ripenedAt = performance.now();
      }
      return 0;
    }
    if (!complete) return 0;
    const heldBackFor = slots.heldBackFor();
    if (heldBackFor !== undefined) turns.restart();
    return Math.min(SLEEP_MS, ripenIn, heldBackFor ?? Infinity, ended.length > 0 ? GATHER_MS : Infinity);
  }

  async function run(): Promise<void> {
    while (!closing || underWay > 0 || ended.length > 0 || unrecorded.size > 0) {
      try {
        const idleFor = await serial.add(round);
        if (idleFor > 0) await sleeper.sleep(idleFor);
        else await setImmediate();
      } catch (error) {
        log.error({ error: errorMessage(error) }, 'the webhook outbox cannot be written; trying again');
        // What cannot be recorded now is repeated when its lease has ended.
        if (closing && underWay === 0) return;
        await sleeper.sleep(TROUBLE_MS);
      }
    }
  }

  function wake(): void {
    turns.restart();
    sleeper.wakeIn(0);
  }

  const running = run();
  return {
    transact,
    wake,
    async close() {
      closing = true;
      const grace = setTimeout(() => stop.abort(), GRACE_MS);
      sleeper.wakeIn(0);
      await running;
      clearTimeout(grace);
    },
  };
}

function unexpected(error: unknown): Answer {
  return { ok: false, status: null, latency: 0, error: errorMessage(error), response: null };
}
