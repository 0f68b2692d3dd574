/**
 * The dispatcher: claims due deliveries from the outbox and sends them, until it is closed.
 *
 * Each of its commits, including one that enqueues webhooks (`transact`), does all the work that is due at that moment:
 * it records attempts that have ended, and claims deliveries for free slots. So a webhook for a receiver that is not
 * busy costs no commit beyond the one that records its upload. Rounds do the remaining work: retries, expired leases,
 * and deliveries that waited for a slot. The commit that makes a delivery due reports it to `destinations.ts`, so the
 * outbox is searched only at the start. Waits are measured by the monotonic clock: when the wall clock is set, the
 * times in the outbox are moved with it.
 */
import type { Store } from '../../foundation/context.ts';
import { setImmediate } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import PQueue from 'p-queue';
import { type Micros, stepMeter } from '../../foundation/base/clock.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { isShared, presentTime } from '../../foundation/db/shared.ts';
import type { Transact, Work } from '../../foundation/db/database.ts';
import { errorMessage } from '../../foundation/base/errors.ts';
import { yielder } from '../../foundation/base/event-loop.ts';
import type { Log } from '../../foundation/base/log.ts';
import { Destinations, type Verdict } from './destinations.ts';
import { type AttemptSeen, longestWait, nameOf, outcomeOf, report, type RetryDelays } from './outcome.ts';
import {
  type Claimed,
  clamp,
  doRound,
  type Ended,
  LEASE,
  LISTED,
  nextTimed,
  queuedDestinations,
  shift,
  type Taken,
  type Turn,
} from './queue.ts';
import { type Answer, noAnswer, type Send } from './send.ts';
import { createSleeper } from './sleeper.ts';

/** An answer within this time makes a destination proven (see `destinations.ts`), in µs. */
const QUICK: Micros = 1_000_000;
/**
 * How long attempts that have ended wait for others, so that one commit records them all, and how long after a commit the next round
 * comes, in ms. While uploads come, their next commit comes before that, and leaves less to do.
 */
const GATHER_MS = 5;
/** How long rounds wait at most while other commits follow each other, in ms: only a round finds retries that are due. */
const LONGEST_GATHER_MS = 50;
/** How long `close` lets attempts continue, in ms. Then they are aborted, and the next start repeats them at once. */
const GRACE_MS = 3000;
/** Retries that fall due within this time, in ms, become due together, since each alone would cost a commit. */
const PROMOTE_MS = 50;
/** The longest sleep, in ms. Another process may have put something into the outbox (`replay.ts`). */
const SLEEP_MS = 10_000;
/** How often an outbox that several machines share is searched, in ms. */
const SEARCH_MS = 1000;
/**
 * How long expired leases are left alone after the database was unavailable, in ms: other machines first record the
 * outcomes of their attempts.
 */
const RECORD_MS = 5000;
/** The wait after the database refused a write (a full disk, say), in ms. */
const TROUBLE_MS = 1000;

export interface DispatcherOptions extends Store {
  readonly log: Log;
  readonly retryDelays: RetryDelays;
  readonly send: Send;
  /** Called when an attempt has ended. */
  readonly observe?: (attempt: AttemptSeen) => void;
}

const nothing: Work<void> = async () => ({ value: undefined, destinations: [] });

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #destinations = new Destinations(() => performance.now());
  readonly #sleeper = createSleeper();
  /** Whether other machines claim from the same outbox. If so, its times are by the database's clock. */
  readonly #isShared: boolean;
  readonly #clockStep: () => Micros;
  /** Runs one transaction at a time, with its effects. */
  readonly #serial = new PQueue({ concurrency: 1 });
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #isClosing = false;
  #underWay = 0;
  /** Attempts that have ended and still hold their slots. */
  #ended: Ended[] = [];
  /** When the first attempt in `#ended` ended, by the monotonic clock in ms. */
  #endedSince = 0;
  readonly #unrecorded = new Set<Ended>();
  /** A step of the wall clock that the outbox has not followed yet. */
  #jump: Micros = 0;
  #isFirst = true;
  /** The destination after which to continue the search of the outbox; undefined when no search is needed. */
  #searchAfter: string | undefined = '';
  #searchedAt = Number.NEGATIVE_INFINITY;
  #promotedAt = Number.NEGATIVE_INFINITY;
  #promotesFrom = Number.NEGATIVE_INFINITY;
  /** When the last commit was, and the last round, by the monotonic clock in ms. */
  #committedAt = Number.NEGATIVE_INFINITY;
  #roundAt = Number.NEGATIVE_INFINITY;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#isShared = isShared(options.database.db);
    this.#clockStep = this.#isShared ? () => 0 : stepMeter(options.clock, () => performance.now());
    this.#running = this.#run();
  }

  readonly transact: Transact = (work) => this.#serial.add(() => this.#commit(work));

  /** Searches the outbox now, because a delivery was enqueued outside of `transact`. */
  wake(): void {
    this.#searchAfter = '';
    this.#sleeper.wakeIn(0);
  }

  /**
   * Claims nothing more, lets running attempts end for up to 3 s, and records all of them. Nothing runs any more when
   * this resolves.
   */
  async close(): Promise<void> {
    this.#isClosing = true;
    const grace = setTimeout(() => this.#stop.abort(), GRACE_MS);
    this.#sleeper.wakeIn(0);
    await this.#running;
    clearTimeout(grace);
  }

  async #run(): Promise<void> {
    await Promise.resolve(); // until the constructor has returned
    while (!this.#isDone()) {
      try {
        const idleFor = await this.#serial.add(() => this.#round());
        if (idleFor > 0) await this.#sleeper.sleep(idleFor);
        else await setImmediate();
      } catch (error) {
        this.#options.log.error({ error: errorMessage(error) }, 'the webhook outbox cannot be written; trying again');
        if (this.#isShared) this.#promotesFrom = performance.now() + RECORD_MS;
        // An attempt that cannot be recorded is repeated once its lease expires.
        if (this.#isClosing && this.#underWay === 0) return;
        await this.#sleeper.sleep(TROUBLE_MS);
      }
    }
  }

  #isDone(): boolean {
    return this.#isClosing && this.#underWay === 0 && this.#ended.length === 0 && this.#unrecorded.size === 0;
  }

  /** Runs one round. Returns for how many ms there is nothing to do; 0 when there may be more. */
  async #round(): Promise<number> {
    const began = performance.now();
    const gathersFor = Math.min(this.#committedAt + GATHER_MS, this.#roundAt + LONGEST_GATHER_MS) - began;
    if (gathersFor > 0 && !this.#isClosing) return gathersFor;
    this.#roundAt = began;
    this.#jump += this.#clockStep();
    await this.#search();
    const { database, clock } = this.#options;
    const timed = ((await nextTimed(database.reads, clock.now())) ?? Infinity) + this.#jump;
    const promotesFrom = Math.max(this.#promotedAt + PROMOTE_MS, this.#promotesFrom);
    const promotesIn = Math.max(timed / 1000, promotesFrom - performance.now());
    const promotes = promotesIn <= 0;
    const readyIn = this.#isClosing ? Infinity : this.#destinations.readyIn();
    const isRecordable = this.#unrecorded.size > 0 || this.#areGathered();
    if (isRecordable || readyIn === 0 || promotes || this.#jump !== 0 || this.#isFirst) {
      await this.#commit(nothing, promotes);
      if (promotes) this.#promotedAt = performance.now();
      return 0;
    }
    if (this.#searchAfter !== undefined) return 0;
    return Math.min(
      this.#isShared ? SEARCH_MS : SLEEP_MS,
      promotesIn,
      readyIn,
      this.#ended.length > 0 ? GATHER_MS : Infinity,
    );
  }

  /**
   * Searches a part of the outbox for destinations. How many deliveries are due at each shows when it gets its turns.
   */
  async #search(): Promise<void> {
    if (this.#isShared && performance.now() - this.#searchedAt >= SEARCH_MS) this.#searchAfter ??= '';
    const after = this.#searchAfter;
    if (after === undefined) return;
    this.#searchedAt = performance.now();
    this.#searchAfter = undefined;
    const found = await queuedDestinations(this.#options.database.reads, after);
    for (const destination of found) this.#destinations.due(destination, Infinity);
    // If `wake` was called meanwhile, the search starts over instead.
    if (found.length === LISTED) this.#searchAfter ??= found.at(-1);
  }

  /** Commits `work` and all other work that is due. */
  async #commit<T>(work: Work<T>, promotes = false): Promise<T> {
    let turns: readonly Turn[] = [];
    let recorded: readonly Ended[] = [];
    try {
      const committed = await this.#options.database.db.transaction().execute(async (tx) => {
        const { value, destinations } = await work(tx);
        this.#tellDue(destinations);
        this.#collect();
        recorded = [...this.#unrecorded];
        const taken = await doRound(tx, {
          finished: recorded,
          promotes,
          now: await this.#present(tx),
          due: (promoted) => this.#tellDue(promoted),
          turns: () => (turns = this.#isClosing ? [] : this.#destinations.next()),
        });
        return { value, taken };
      });
      this.#committedAt = performance.now();
      for (const ended of recorded) this.#unrecorded.delete(ended);
      this.#jump = 0;
      this.#isFirst = false;
      this.#begin(turns, committed.taken);
      return committed.value;
    } catch (error) {
      for (const { destination, count } of turns) this.#destinations.give(destination, count);
      throw error;
    }
  }

  #begin(turns: readonly Turn[], { claimed, moves }: Taken): void {
    const begun = Map.groupBy(claimed, ({ destination }) => destination);
    for (const turn of turns) this.#destinations.began(turn, begun.get(turn.destination)?.length ?? 0);
    for (const { from, to, count } of moves) {
      // The next turn finds the deliveries behind those that were moved.
      this.#destinations.due(from, Infinity);
      this.#destinations.due(to, count);
    }
    this.#underWay += claimed.length;
    void this.#attemptAll(claimed);
    this.#sleeper.wakeIn(this.#destinations.readyIn());
  }

  #tellDue(destinations: readonly string[]): void {
    for (const destination of destinations) this.#destinations.due(destination, 1);
  }

  /** The present time, after the times in the outbox have been moved with the wall clock, so that waits keep their length. */
  async #present(tx: Kysely<Tables>): Promise<Micros> {
    this.#jump += this.#clockStep();
    const { clock, retryDelays } = this.#options;
    if (this.#jump !== 0) await shift(tx, this.#jump);
    const now = await presentTime(tx, clock);
    if (this.#isFirst) await clamp(tx, now, longestWait(retryDelays) + LEASE);
    return now;
  }

  /** Begins attempts. Each makes a request, and others go on between them. */
  async #attemptAll(claimed: readonly Claimed[]): Promise<void> {
    const pause = yielder();
    for (const delivery of claimed) {
      void this.#attempt(delivery);
      await pause();
    }
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
      this.#destinations.judge(delivery.destination, verdictOn(answer));
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

  /** Whether enough attempts have ended to be worth a commit. The running ones keep the processor busy meanwhile. */
  #areGathered(): boolean {
    const { length } = this.#ended;
    return length > 0 && (length >= this.#underWay || performance.now() - this.#endedSince >= GATHER_MS);
  }

  /** Frees the slots of attempts that have ended, and has the next commit record them. */
  #collect(): void {
    for (const finished of this.#ended) {
      this.#destinations.give(finished.destination, 1);
      this.#unrecorded.add(finished);
    }
    this.#ended = [];
  }
}

function verdictOn({ status, latency }: Answer): Verdict {
  if (status === null) return 'silent';
  return latency < QUICK ? 'quick' : 'slow';
}

function unexpected(error: unknown): Answer {
  return { ok: false, status: null, latency: 0, error: errorMessage(error), response: null };
}
