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
import type { Kysely, Transaction } from 'kysely';
import PQueue from 'p-queue';
import type { Clock, Micros } from '../clock.ts';
import { stepMeter } from '../clock-steps.ts';
import type { Database } from '../db/open.ts';
import type { Tables } from '../db/schema.ts';
import { isShared, presentTime } from '../db/shared.ts';
import { errorMessage } from '../errors.ts';
import type { Log } from '../log.ts';
import { Destinations } from './destinations.ts';
import { type AttemptSeen, longestWait, nameOf, outcomeOf, report, type RetryDelays } from './outcome.ts';
import { type Claimed, LEASE, LISTED, queuedDestinations, type Turn } from './queue.ts';
import { doRound, type Ended, type Taken } from './rounds.ts';
import { type Answer, noAnswer, type Send } from './send.ts';
import { createSleeper } from './sleeper.ts';
import { clamp, nextTimed, shift } from './timed.ts';

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
/** How often the outbox of several machines is searched, in ms. */
const SEARCH_MS = 1000;
/**
 * After the database was away, leases that have ended are left alone for so long, in ms: another machine records first what
 * its attempts have come to.
 */
const RECORD_MS = 5000;
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

/** Does in a transaction what there is to do; `enqueued` are the destinations of webhooks that are new in it. */
type Settle = (tx: Kysely<Tables>, enqueued: readonly string[]) => Promise<void>;

/** Runs a transaction that may enqueue webhooks. Those that there is room for are claimed in it and sent at once. */
export type Transact = <T>(work: (tx: Transaction<Tables>) => Promise<Enqueued<T>>) => Promise<T>;

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #destinations = new Destinations(() => performance.now());
  readonly #sleeper = createSleeper();
  /** Whether other machines claim from the same outbox. Its times are then the database's. */
  readonly #isShared: boolean;
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
  #searchedAt = Number.NEGATIVE_INFINITY;
  #ripenedAt = Number.NEGATIVE_INFINITY;
  #ripensFrom = Number.NEGATIVE_INFINITY;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#isShared = isShared(options.database.db);
    this.#clockStep = this.#isShared ? () => 0 : stepMeter(options.clock, () => performance.now());
    this.#running = this.#run();
  }

  readonly transact: Transact = (work) =>
    this.#serial.add(() =>
      this.#commit(false, (settle) =>
        this.#options.database.db.transaction().execute(async (tx) => {
          const { value, destinations } = await work(tx);
          await settle(tx, destinations);
          return value;
        }),
      ),
    );

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
        if (this.#isShared) this.#ripensFrom = performance.now() + RECORD_MS;
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
    const { database, clock } = this.#options;
    const timed = ((await nextTimed(database.reads, clock.now())) ?? Infinity) + this.#jump;
    const ripensFrom = Math.max(this.#ripenedAt + RIPEN_MS, this.#ripensFrom);
    const ripenIn = Math.max(timed / 1000, ripensFrom - performance.now());
    const isRipe = ripenIn <= 0;
    const readyIn = this.#isClosing ? Infinity : this.#destinations.readyIn();
    const isRecordable = this.#unrecorded.size > 0 || this.#areGathered();
    if (isRecordable || readyIn === 0 || isRipe || this.#jump !== 0 || this.#isFirst) {
      const isOneStatement = this.#isShared && !this.#isFirst;
      await this.#commit(isRipe, (settle) =>
        isOneStatement ? settle(database.db, []) : database.db.transaction().execute((tx) => settle(tx, [])),
      );
      if (isRipe) this.#ripenedAt = performance.now();
      return 0;
    }
    if (this.#searchAfter !== undefined) return 0;
    return Math.min(
      this.#isShared ? SEARCH_MS : SLEEP_MS,
      ripenIn,
      readyIn,
      this.#ended.length > 0 ? GATHER_MS : Infinity,
    );
  }

  /** Searches a piece of the outbox. How much is due at a destination turns out when it has its turns. */
  async #search(): Promise<void> {
    if (this.#isShared && performance.now() - this.#searchedAt >= SEARCH_MS) this.#searchAfter ??= '';
    const after = this.#searchAfter;
    if (after === undefined) return;
    this.#searchedAt = performance.now();
    this.#searchAfter = undefined;
    const found = await queuedDestinations(this.#options.database.reads, after);
    for (const destination of found) this.#destinations.due(destination, Infinity);
    // It may be set already: a search that was asked for meanwhile begins anew.
    if (found.length === LISTED) this.#searchAfter ??= found.at(-1);
  }

  /** Commits what `run` does, and by `settle` all there is to do beside it. */
  async #commit<T>(isRipe: boolean, run: (settle: Settle) => Promise<T>): Promise<T> {
    let turns: readonly Turn[] = [];
    let recorded: readonly Ended[] = [];
    let taken: Taken = { claimed: [], moves: [], misplaced: [] };
    try {
      const value = await run(async (tx, enqueued) => {
        this.#collect();
        recorded = [...this.#unrecorded];
        this.#tellDue(enqueued);
        await this.#followClock(tx);
        taken = await doRound(tx, {
          finished: recorded,
          isRipe,
          now: this.#options.clock.now(),
          due: (destinations) => this.#tellDue(destinations),
          turns: () => (turns = this.#isClosing ? [] : this.#destinations.next()),
        });
      });
      for (const ended of recorded) this.#unrecorded.delete(ended);
      this.#jump = 0;
      this.#isFirst = false;
      this.#begin(turns, taken);
      return value;
    } catch (error) {
      for (const { destination, count } of turns) this.#destinations.give(destination, count);
      throw error;
    }
  }

  #begin(turns: readonly Turn[], { claimed, moves, misplaced }: Taken): void {
    const begun = Map.groupBy([...claimed, ...misplaced], ({ destination }) => destination);
    for (const turn of turns) this.#destinations.began(turn, begun.get(turn.destination)?.length ?? 0);
    for (const { from, to, count } of moves) {
      // What stands behind those that have moved shows in its next turn.
      this.#destinations.due(from, Infinity);
      this.#destinations.due(to, count);
    }
    for (const ended of misplaced) this.#end(ended);
    this.#underWay += claimed.length;
    for (const delivery of claimed) void this.#attempt(delivery);
    this.#sleeper.wakeIn(this.#destinations.readyIn());
  }

  #tellDue(destinations: readonly string[]): void {
    for (const destination of destinations) this.#destinations.due(destination, 1);
  }

  /** Keeps the outbox's times as far away as they were. */
  async #followClock(tx: Kysely<Tables>): Promise<void> {
    this.#jump += this.#clockStep();
    const { clock, retryDelays } = this.#options;
    if (this.#jump !== 0) await shift(tx, this.#jump);
    if (this.#isFirst) await clamp(tx, await presentTime(tx, clock), longestWait(retryDelays) + LEASE);
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
    this.#underWay -= 1;
    this.#end({ ...finished, destination: delivery.destination });
  }

  #end(ended: Ended): void {
    if (this.#ended.length === 0) this.#endedSince = performance.now();
    this.#ended.push(ended);
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
