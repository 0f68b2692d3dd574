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
import { type Clock, DAY, type Micros } from '../clock.ts';
import type { Database } from '../db/open.ts';
import type { Tables } from '../db/schema.ts';
import { errorMessage } from '../errors.ts';
import type { Log } from '../log.ts';
import { longestWait, type RetryDelays, waitAfter } from './backoff.ts';
import { claim, type Claimed, LEASE, type Turn } from './claim.ts';
import { finish, type Finished } from './finish.ts';
import { queueReads } from './queries.ts';
import { clamp, ripen, shift } from './ripen.ts';
import { createRotation } from './rotation.ts';
import type { Answer, Send } from './send.ts';
import { createSleeper } from './sleeper.ts';
import { createSlots } from './slots.ts';
import { createTimekeeper } from './timekeeper.ts';

/** An answer within this makes a destination proven (see `slots.ts`), in µs. */
const QUICK: Micros = 1_000_000;
/** How long `close` lets attempts go on, in ms; then they end and the next start repeats them at once. */
const GRACE_MS = 3000;
/** How long attempts that have ended wait for others, to be recorded with one commit, in ms. */
const GATHER_MS = 2;
/** Retries that come due within this, in ms, become due together: each by itself would cost a commit. */
const RIPEN_MS = 50;
/** The longest sleep, in ms: a look at the clock now and then. */
const SLEEP_MS = 10_000;
/** For so long after its upload a delivery's attempts do not count when the receiver could not be asked. */
const SPARED: Micros = DAY;
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

export interface AttemptSeen {
  /** `handed-back`: cut off by a stop, to be repeated at once. */
  readonly outcome: 'delivered' | 'retry' | 'failed' | 'handed-back';
  /** From the close of the upload to the end of this attempt. */
  readonly sinceClose: Micros;
}

export interface Dispatcher {
  /** To be called after each commit that enqueued something. */
  wake(): void;
  /** Claims nothing more, lets attempts end for up to 3 s, records all; nothing of it runs when it returns. */
  close(): Promise<void>;
}

type Ended = Finished & Pick<Claimed, 'destination'>;

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
  const timekeeper = createTimekeeper(clock, () => performance.now());
  const stop = new AbortController();
  let ended: Ended[] = [];
  /** When the first of them ended, by a clock that nobody sets. */
  let endedSince = 0;
  /** Those that the next transaction records; they stay here when it fails. */
  let unrecorded: Ended[] = [];
  let underWay = 0;
  let closing = false;
  /** What a set clock has moved and the outbox has not followed yet. */
  let jump: Micros = 0;
  let isFirst = true;
  /** By a clock that nobody sets. */
  let ripenedAt = -Infinity;

  const attempt = async (delivery: Claimed, at: Micros): Promise<void> => {
    const answer = await send(delivery, at, stop.signal).catch(unexpected);
    const isHandedBack = stop.signal.aborted && answer.status === null;
    const { id, attempts, destination } = delivery;
    const sinceClose = clock.now() - delivery.inserted_at;
    const isSpared = answer.isShortage === true && sinceClose < SPARED;
    const retryIn = isHandedBack ? 0 : waitAfter(isSpared ? 1 : attempts, retryDelays, Math.random());
    options.observe?.({ outcome: outcomeOf(answer, retryIn), sinceClose });
    report(log, delivery, answer, retryIn, sinceClose);
    slots.judge(destination, answer.status !== null && answer.latency < QUICK);
    if (ended.length === 0) endedSince = performance.now();
    ended.push({ id, attempts, destination, isSpared, ...answer, retryIn: answer.ok ? undefined : retryIn });
    underWay -= 1;
    if (isGathered()) sleeper.rouseSoon();
    else sleeper.rouseIn(GATHER_MS);
  };

  /** Whether enough attempts have ended to be worth a commit; the others keep the processor busy meanwhile. */
  const isGathered = (): boolean =>
    ended.length > 0 && (ended.length >= underWay || performance.now() - endedSince >= GATHER_MS);
  /** Has the attempts that have ended recorded in this round. Their slots are free from here on. */
  const takeEnded = (): void => {
    for (const { destination } of ended) slots.give(destination, 1);
    if (ended.length > 0) rotation.restart();
    unrecorded = [...unrecorded, ...ended];
    ended = [];
  };

  /** Everything that one transaction writes. */
  const write = async (tx: Transaction<Tables>, { finished, turns, isRipe }: Work, now: Micros): Promise<Claimed[]> => {
    if (jump !== 0) await shift(tx, jump);
    if (isFirst) await clamp(tx, now + longestWait(retryDelays) + LEASE);
    await finish(tx, finished, now);
    if (isRipe) await ripen(tx, now);
    return claim(tx, turns, now);
  };

  /** One round; says for how many ms there is nothing to do, 0 when there may be more. */
  const round = async (): Promise<number> => {
    jump += timekeeper.jump();
    const now = clock.now();
    const timed = ((await queue.nextTimed()) ?? Infinity) + jump;
    const ripenIn = Math.max((timed - now) / 1000, RIPEN_MS - (performance.now() - ripenedAt));
    const isRipe = ripenIn <= 0;
    if (isGathered()) takeEnded();
    const { turns, complete } = closing ? { turns: [], complete: true } : await rotation.next();
    // The commit is made anyway.
    if (turns.length > 0) takeEnded();
    const finished = unrecorded;
    if (finished.length > 0 || turns.length > 0 || isRipe || jump !== 0 || isFirst) {
      try {
        const claimed = await database.db.transaction().execute((tx) => write(tx, { finished, isRipe, turns }, now));
        if (isRipe) {
          rotation.restart();
          ripenedAt = performance.now();
        }
        unrecorded = [];
        jump = 0;
        isFirst = false;
        giveUnused(turns, claimed);
        underWay += claimed.length;
        for (const delivery of claimed) void attempt(delivery, now);
      } catch (error) {
        giveUnused(turns, []);
        throw error;
      }
      return 0;
    }
    if (!complete) return 0;
    const gathering = ended.length > 0 ? GATHER_MS : Infinity;
    return Math.min(SLEEP_MS, ripenIn, slots.heldBackFor() ?? Infinity, gathering);
  };

  const giveUnused = (turns: readonly Turn[], claimed: readonly Claimed[]): void => {
    const used = Map.groupBy(claimed, ({ destination }) => destination);
    for (const { destination, count } of turns) slots.give(destination, count - (used.get(destination)?.length ?? 0));
  };

  const isDone = (): boolean => closing && underWay === 0 && ended.length === 0 && unrecorded.length === 0;
  const run = async (): Promise<void> => {
    while (!isDone()) {
      try {
        const idleFor = await round();
        if (idleFor > 0) await sleeper.sleep(idleFor);
        else await setImmediate();
      } catch (error) {
        log.error({ error: errorMessage(error) }, 'the webhook outbox cannot be written; trying again');
        // What cannot be recorded now is repeated when its lease has ended.
        if (closing && underWay === 0) return;
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

function outcomeOf({ ok }: Answer, retryIn: Micros | undefined): AttemptSeen['outcome'] {
  if (ok) return 'delivered';
  if (retryIn === undefined) return 'failed';
  return retryIn === 0 ? 'handed-back' : 'retry';
}

function report(log: Log, delivery: Claimed, answer: Answer, retryIn: Micros | undefined, sinceClose: Micros): void {
  const { ok, status, latency, error } = answer;
  // One for each file: not even put together unless somebody wants to see them.
  if (ok && !log.isLevelEnabled('debug')) return;
  const { id, directory_id, attempts } = delivery;
  const fields = {
    delivery: id,
    directory: directory_id,
    external_id: externalIdOf(delivery.body),
    attempt: attempts,
    status,
    latency_ms: latency / 1000,
    since_close_ms: sinceClose / 1000,
  };
  if (ok) log.debug(fields, 'webhook delivered');
  else if (retryIn === undefined) log.warn({ ...fields, error }, 'webhook failed for good');
  else log.info({ ...fields, error, retry_in_s: retryIn / 1_000_000 }, 'webhook failed, to be repeated');
}

/** The body is the only place where a delivery keeps it. */
function externalIdOf(body: Buffer): unknown {
  return (JSON.parse(body.toString()) as { external_id?: unknown }).external_id ?? null;
}
