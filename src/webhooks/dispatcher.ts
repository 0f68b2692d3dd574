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
import { createTurns, type Turns } from './turns.ts';

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
  readonly observe?: (attempt: AttemptSeen) => void;
}

/** What a transaction gives, and the destinations of the webhooks that it has enqueued. */
export interface Enqueued<T> {
  readonly value: T;
  readonly destinations: readonly string[];
}

/** Runs a transaction that may enqueue webhooks. Those that there is room for are claimed in it and sent at once. */
export type Transact = <T>(work: (tx: Transaction<Tables>) => Promise<Enqueued<T>>) => Promise<T>;

type Ended = Finished & Pick<Claimed, 'destination'>;

const NO_TURNS = { turns: [], complete: true };

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #slots = createSlots(() => performance.now());
  readonly #turns: Turns;
  readonly #sleeper = createSleeper();
  readonly #clockStep: () => Micros;
  /** One transaction at a time, what follows from it included. */
  readonly #serial = new PQueue({ concurrency: 1 });
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #isClosing = false;
  #underWay = 0;
  /** Attempts that have ended and hold their slots still. */
  #ended: Ended[] = [];
  /** When the first of them did. */
  #endedSince = 0;
  readonly #unrecorded = new Set<Finished>();
  /** By how much the wall clock was set and the outbox has not followed yet. */
  #jump: Micros = 0;
  #isFirst = true;
  #ripenedAt = Number.NEGATIVE_INFINITY;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#turns = createTurns(options.database.reads, this.#slots);
    this.#clockStep = stepMeter(options.clock, () => performance.now());
    this.#running = this.#run();
  }

  readonly transact: Transact = (work) =>
    this.#serial.add(async () => {
      const taken: Turn[] = [];
      const { value, destinations } = await this.#commit(taken, false, async (tx) => {
        const enqueued = await work(tx);
        this.#collect();
        taken.push(...this.#turnsFor(enqueued.destinations));
        return enqueued;
      });
      const begun = taken.reduce((sum, { count }) => sum + count, 0);
      if (begun < destinations.length) this.wake();
      return value;
    });

  /** Looks at the outbox now: somebody has changed it in a transaction of another kind. */
  wake(): void {
    this.#turns.restart();
    this.#sleeper.wakeIn(0);
  }

  /** Claims nothing more, lets attempts end for up to 3 s, records all; nothing of it runs when it returns. */
  async close(): Promise<void> {
    this.#isClosing = true;
    const grace = setTimeout(() => this.#stop.abort(), GRACE_MS);
    this.#sleeper.wakeIn(0);
    await this.#running;
    clearTimeout(grace);
  }

  async #run(): Promise<void> {
    await Promise.resolve(); // until all of it is there
    while (!this.#isDone()) {
      try {
        const idleFor = await this.#serial.add(() => this.#round());
        if (idleFor > 0) await this.#sleeper.sleep(idleFor);
        else await setImmediate();
      } catch (error) {
        this.#options.log.error({ error: errorMessage(error) }, 'the webhook outbox cannot be written; trying again');
        // What cannot be recorded now is repeated when its lease has ended.
        if (this.#isClosing && this.#underWay === 0) return;
        await this.#sleeper.sleep(TROUBLE_MS);
      }
    }
  }

  #isDone(): boolean {
    return this.#isClosing && this.#underWay === 0 && this.#ended.length === 0 && this.#unrecorded.size === 0;
  }

  /** One round; says for how many ms there is nothing to do, 0 when there may be more. */
  async #round(): Promise<number> {
    this.#jump += this.#clockStep();
    const timed = ((await nextTimed(this.#options.database.reads)) ?? Infinity) + this.#jump;
    const dueIn = (timed - this.#options.clock.now()) / 1000;
    const ripenIn = Math.max(dueIn, RIPEN_MS - (performance.now() - this.#ripenedAt));
    const isRipe = ripenIn <= 0;
    if (this.#areGathered()) this.#collect();
    const { turns: taken, complete } = this.#isClosing ? NO_TURNS : await this.#turns.next();
    // The commit is made anyway.
    if (taken.length > 0) this.#collect();
    if (this.#unrecorded.size > 0 || taken.length > 0 || isRipe || this.#jump !== 0 || this.#isFirst) {
      await this.#commit(taken, isRipe, () => Promise.resolve());
      if (isRipe) {
        this.#turns.restart();
        this.#ripenedAt = performance.now();
      }
      return 0;
    }
    if (!complete) return 0;
    const heldBackFor = this.#slots.heldBackFor();
    if (heldBackFor !== undefined) this.#turns.restart();
    return Math.min(SLEEP_MS, ripenIn, heldBackFor ?? Infinity, this.#ended.length > 0 ? GATHER_MS : Infinity);
  }

  /** Commits `work` and all there is to do beside it. `taken` may grow until the work is done. */
  async #commit<T>(taken: readonly Turn[], isRipe: boolean, work: (tx: Transaction<Tables>) => Promise<T>): Promise<T> {
    let claimed: readonly Claimed[] = [];
    try {
      const done = await this.#options.database.db.transaction().execute(async (tx) => {
        const value = await work(tx);
        const recorded = [...this.#unrecorded];
        return { value, recorded, claimed: await this.#settle(tx, recorded, taken, isRipe) };
      });
      claimed = done.claimed;
      for (const finished of done.recorded) this.#unrecorded.delete(finished);
      this.#jump = 0;
      this.#isFirst = false;
      this.#underWay += claimed.length;
      for (const delivery of claimed) void this.#attempt(delivery);
      return done.value;
    } finally {
      const used = Map.groupBy(claimed, ({ destination }) => destination);
      for (const { destination, count } of taken) {
        this.#slots.give(destination, count - (used.get(destination)?.length ?? 0));
      }
    }
  }

  async #settle(
    tx: Transaction<Tables>,
    recorded: readonly Finished[],
    taken: readonly Turn[],
    isRipe: boolean,
  ): Promise<Claimed[]> {
    this.#jump += this.#clockStep();
    const now = this.#options.clock.now();
    if (this.#jump !== 0) await shift(tx, this.#jump);
    if (this.#isFirst) await clamp(tx, now + longestWait(this.#options.retryDelays) + LEASE);
    await finish(tx, recorded, now);
    if (isRipe) await ripen(tx, now);
    return claim(tx, taken, now);
  }

  /** For each of these destinations as many turns as there is room for, their slots taken. */
  #turnsFor(destinations: readonly string[]): Turn[] {
    if (this.#isClosing) return [];
    const wanted = Map.groupBy(destinations, (destination) => destination);
    return [...wanted].map(([destination, { length }]) => ({
      destination,
      count: this.#slots.take(destination, length),
    }));
  }

  async #attempt(delivery: Claimed): Promise<void> {
    const { send, clock, log, retryDelays, observe } = this.#options;
    const { signal } = this.#stop;
    const answer = await send(delivery, clock.now(), signal).catch(unexpected);
    const sinceClose = clock.now() - delivery.inserted_at;
    const finished = outcomeOf(delivery, answer, { retryDelays, sinceClose, isStopping: signal.aborted });
    observe?.({ outcome: nameOf(finished), sinceClose });
    report(log, delivery, finished, sinceClose);
    this.#slots.judge(delivery.destination, answer.status !== null && answer.latency < QUICK);
    if (this.#ended.length === 0) this.#endedSince = performance.now();
    this.#ended.push({ ...finished, destination: delivery.destination });
    this.#underWay -= 1;
    this.#sleeper.wakeIn(this.#areGathered() ? 0 : GATHER_MS);
  }

  /** Whether enough have ended to be worth a commit; the others keep the processor busy meanwhile. */
  #areGathered(): boolean {
    const { length } = this.#ended;
    return length > 0 && (length >= this.#underWay || performance.now() - this.#endedSince >= GATHER_MS);
  }

  /** Has what has ended recorded with the next commit; its slots are free again. */
  #collect(): void {
    for (const finished of this.#ended) {
      this.#slots.give(finished.destination, 1);
      this.#unrecorded.add(finished);
    }
    if (this.#ended.length > 0) this.#turns.restart();
    this.#ended = [];
  }
}

function unexpected(error: unknown): Answer {
  return { ok: false, status: null, latency: 0, error: errorMessage(error), response: null };
}
