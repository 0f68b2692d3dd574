/** Decides the outcome of an attempt (delivered, retried, handed back or given up), and logs it. */
import { DAY, type Micros, SECOND } from '../../foundation/base/clock.ts';
import type { Log } from '../../foundation/base/log.ts';
import type { Claimed, Finished } from './queue.ts';
import { LONGEST_WAIT } from './retry-after.ts';
import type { Answer } from './send.ts';

/** Waits before the second, third and fourth attempt, in seconds (docs/design.md, 9). */
export type RetryDelays = readonly [number, number, number];

/** Spreads the retries of many deliveries that failed together. */
const JITTER = 0.2;

/** How long after the upload attempts do not count if berth could not even ask the receiver. */
const SPARED: Micros = DAY;

export interface AttemptSeen {
  /** `handed-back`: cut off by a stop, to be repeated at once. */
  readonly outcome: 'delivered' | 'retry' | 'failed' | 'handed-back';
  /** From the close of the upload to the end of this attempt. */
  readonly sinceClose: Micros;
}

export interface Circumstances {
  readonly retryDelays: RetryDelays;
  readonly sinceClose: Micros;
  /** Whether the service is stopping, and aborts attempts without an answer. */
  readonly isStopping: boolean;
}

/** The outcome of an attempt, as it is recorded. */
export function outcomeOf(
  { id, attempts }: Claimed,
  answer: Answer,
  { retryDelays, sinceClose, isStopping }: Circumstances,
): Finished {
  if (answer.ok) return { id, attempts, ...answer, retryIn: undefined };
  const isSpared = answer.isShortage === true && sinceClose < SPARED;
  const wait = answer.isFinal ? undefined : waitAfter(isSpared ? 1 : attempts, retryDelays, answer.retryAfter);
  const isHandedBack = isStopping && answer.status === null && wait !== undefined;
  return { id, attempts, ...answer, retryIn: isHandedBack ? 0 : wait, isSpared };
}

/**
 * The wait after attempt `number` has failed, in µs; undefined after the last. At least as long as the receiver asks
 * for.
 */
function waitAfter(number: number, delays: RetryDelays, requested: Micros = 0): Micros | undefined {
  const seconds = delays[number - 1];
  if (seconds === undefined) return undefined;
  const own = seconds * SECOND * (1 + JITTER * (2 * Math.random() - 1));
  // The jitter only makes the wait longer than the receiver asked for, never shorter.
  return Math.round(Math.max(own, Math.min(LONGEST_WAIT, requested * (1 + JITTER * Math.random()))));
}

/** The longest wait between attempts, in µs, apart from waits that a receiver asks for. */
export function longestWait(delays: RetryDelays): Micros {
  return Math.ceil(Math.max(...delays) * SECOND * (1 + JITTER));
}

export function nameOf({ ok, retryIn }: Finished): AttemptSeen['outcome'] {
  if (ok) return 'delivered';
  if (retryIn === undefined) return 'failed';
  return retryIn === 0 ? 'handed-back' : 'retry';
}

/** Logs the outcome of an attempt. */
export function report(log: Log, delivery: Claimed, finished: Finished, sinceClose: Micros): void {
  const { ok, status, latency, error, retryIn } = finished;
  // A delivered webhook is logged for each file, so its line is not even formatted unless the level is on.
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
  else log.info({ ...fields, error, retry_in_s: retryIn / SECOND }, 'webhook failed, to be repeated');
}

/** The external id is stored only in the body of a delivery. */
function externalIdOf(body: Buffer): unknown {
  return (JSON.parse(body.toString()) as { external_id?: unknown }).external_id ?? null;
}
