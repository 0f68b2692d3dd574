/**
 * The dispatcher: claims what is due in the outbox and sends it, until it is closed.
 *
 * Every commit of its own, and every one that enqueues webhooks (`transact`), does all there is to do at that moment:
 * it records the attempts that have ended and claims what there is room for. So a webhook for a receiver that is not
 * busy costs no commit beside the one that records its upload. The rest is done in rounds: retries, leases that have
 * ended, and what had to wait for a slot. What is due is told to `destinations.ts` by the commit that makes it due; the
 * outbox is searched for it at the start only. Waits are measured by the monotonic clock: when the wall clock is set,
 * the times in the outbox are moved with it.
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
import { Destinations } from './destinations.ts';
import { type AttemptSeen, longestWait, nameOf, outcomeOf, report, type RetryDelays } from './outcome.ts';
import {
  clamp,
  claim,
  type Claimed,
  finish,
  type Finished,
  LEASE,
  LISTED,
  nextTimed,
  queuedDestinations,
  ripen,
  shift,
  type Turn,
} from './queue.ts';
import { type Answer, noAnswer, type Send } from './send.ts';
import { createSleeper } from './sleeper.ts';

/** An answer within this makes a destination proven (see `destinations.ts`), in µs. */
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

/** What a transaction gives, and the destination of each webhook that it has enqueued. */
export interface Enqueued<T> {
  readonly value: T;
  readonly destinations: readonly string[];
}

/** Runs a transaction that may enqueue webhooks. Those that there is room for are claimed in it and sent at once. */
export type Transact = <T>(work: (tx: Transaction<Tables>) => Promise<Enqueued<T>>) => Promise<T>;

type Ended = Finished & Pick<Claimed, 'destination'>;

const NOTHING = { value: undefined, destinations: [] };

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #destinations = new Destinations(() => performance.now());
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
  readonly #unrecorded = new Set<Ended>();
  /** By how much the wall clock was set and the outbox has not followed yet. */
  #jump: Micros = 0;
  #isFirst = true;
  /** After which destination to go on searching the outbox for those that have something due. */
  #searchAfter: string | undefined = '';
  #ripenedAt = Number.NEGATIVE_INFINITY;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#clockStep = stepMeter(options.clock, () => performance.now());
    this.#running = this.#run();
  }

  readonly transact: Transact = (work) => this.#serial.add(() => this.#commit(false, work));

  /** Searches the outbox now: somebody has put something into it in a transaction of another kind. */
  wake(): void {
    this.#searchAfter = '';
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
    await this.#search();
    const timed = ((await nextTimed(this.#options.database.reads)) ?? Infinity) + this.#jump;
    const dueIn = (timed - this.#options.clock.now()) / 1000;
    const ripenIn = Math.max(dueIn, RIPEN_MS - (performance.now() - this.#ripenedAt));
    const isRipe = ripenIn <= 0;
    const readyIn = this.#isClosing ? Infinity : this.#destinations.readyIn();
    const isRecordable = this.#unrecorded.size > 0 || this.#areGathered();
    if (isRecordable || readyIn === 0 || isRipe || this.#jump !== 0 || this.#isFirst) {
      await this.#commit(isRipe, () => Promise.resolve(NOTHING));
      if (isRipe) this.#ripenedAt = performance.now();
      return 0;
    }
    if (this.#searchAfter !== undefined) return 0;
    return Math.min(SLEEP_MS, ripenIn, readyIn, this.#ended.length > 0 ? GATHER_MS : Infinity);
  }

  /** Searches a piece of the outbox. How much is due at a destination turns out when it has its turns. */
  async #search(): Promise<void> {
    const after = this.#searchAfter;
    if (after === undefined) return;
    this.#searchAfter = undefined;
    const found = await queuedDestinations(this.#options.database.reads, after);
    for (const destination of found) this.#destinations.due(destination, Infinity);
    // It may be set already: a search that was asked for meanwhile begins anew.
    if (found.length === LISTED) this.#searchAfter ??= found.at(-1);
  }

  /** Commits `work` and all there is to do beside it. */
  async #commit<T>(isRipe: boolean, work: (tx: Transaction<Tables>) => Promise<Enqueued<T>>): Promise<T> {
    let turns: readonly Turn[] = [];
    try {
      const done = await this.#options.database.db.transaction().execute(async (tx) => {
        const { value, destinations } = await work(tx);
        this.#collect();
        const recorded = [...this.#unrecorded];
        const now = await this.#settle(tx, recorded, isRipe, destinations);
        turns = this.#isClosing ? [] : this.#destinations.next();
        return { value, recorded, ...(await claim(tx, turns, now)) };
      });
      for (const ended of done.recorded) this.#unrecorded.delete(ended);
      this.#jump = 0;
      this.#isFirst = false;
      const begun = Map.groupBy(done.claimed, ({ destination }) => destination);
      for (const turn of turns) this.#destinations.began(turn, begun.get(turn.destination)?.length ?? 0);
      for (const { from, to, count } of done.moves) {
        // What stands behind those that have moved shows in its next turn.
        this.#destinations.due(from, Infinity);
        this.#destinations.due(to, count);
      }
      this.#underWay += done.claimed.length;
      for (const delivery of done.claimed) void this.#attempt(delivery);
      this.#sleeper.wakeIn(this.#destinations.readyIn());
      return done.value;
    } catch (error) {
      for (const { destination, count } of turns) this.#destinations.give(destination, count);
      throw error;
    }
  }

  /** Returns the time that it was done at. */
  async #settle(
    tx: Transaction<Tables>,
    recorded: readonly Ended[],
    isRipe: boolean,
    enqueued: readonly string[],
  ): Promise<Micros> {
    this.#jump += this.#clockStep();
    const now = this.#options.clock.now();
    if (this.#jump !== 0) await shift(tx, this.#jump);
    if (this.#isFirst) await clamp(tx, now, longestWait(this.#options.retryDelays) + LEASE);
    await finish(tx, recorded, now);
    const ripened = isRipe ? await ripen(tx, now) : [];
    const handedBack = recorded.filter(({ retryIn }) => retryIn === 0).map(({ destination }) => destination);
    for (const destination of [...enqueued, ...ripened, ...handedBack]) this.#destinations.due(destination, 1);
    return now;
  }

  async #attempt(delivery: Claimed): Promise<void> {
    const { clock, log, retryDelays, observe } = this.#options;
    const { signal } = this.#stop;
    const answer = await this.#ask(delivery, signal).catch(unexpected);
    const sinceClose = clock.now() - delivery.inserted_at;
    const finished = outcomeOf(delivery, answer, { retryDelays, sinceClose, isStopping: signal.aborted });
    observe?.({ outcome: nameOf(finished), sinceClose });
    report(log, delivery, finished, sinceClose);
    if (!answer.isFinal) {
      this.#destinations.judge(delivery.destination, answer.status !== null && answer.latency < QUICK);
    }
    if (this.#ended.length === 0) this.#endedSince = performance.now();
    this.#ended.push({ ...finished, destination: delivery.destination });
    this.#underWay -= 1;
    this.#sleeper.wakeIn(this.#areGathered() ? 0 : GATHER_MS);
  }

  #ask({ webhook_url: url, webhook_secret, ...delivery }: Claimed, signal: AbortSignal): Promise<Answer> {
    if (url === null || webhook_secret === null) {
      return Promise.resolve({ ...noAnswer('the directory has no webhook URL any more'), isFinal: true });
    }
    return this.#options.send({ ...delivery, url, webhook_secret }, this.#options.clock.now(), signal);
  }

  /** Whether enough have ended to be worth a commit; the others keep the processor busy meanwhile. */
  #areGathered(): boolean {
    const { length } = this.#ended;
    return length > 0 && (length >= this.#underWay || performance.now() - this.#endedSince >= GATHER_MS);
  }

  /** Has what has ended recorded with the next commit; its slots are free again. */
  #collect(): void {
    for (const finished of this.#ended) {
      this.#destinations.give(finished.destination, 1);
      this.#unrecorded.add(finished);
    }
    this.#ended = [];
  }
}

function unexpected(error: unknown): Answer {
  return { ok: false, status: null, latency: 0, error: errorMessage(error), response: null };
}
