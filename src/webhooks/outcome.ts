/** What follows from an attempt's answer: delivered, repeated, handed back or given up; and what the log says of it. */
import { DAY, type Micros, SECOND } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Claimed, Finished } from './queue.ts';
import { LONGEST_WAIT } from './retry-after.ts';
import type { Answer } from './send.ts';

/** Waits before the second, third and fourth attempt, in seconds (docs/design.md, 9). */
export type RetryDelays = readonly [number, number, number];

/** Spreads the retries of many deliveries that failed together. */
const JITTER = 0.2;

/** For so long after its upload a delivery's attempts do not count when the receiver could not be asked. */
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
  /** The service stops, and cuts off what has no answer. */
  readonly isStopping: boolean;
}

/** What to record of it. */
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

/** The wait after attempt `number` has failed, in µs: as long as the receiver asks for, if that is longer. Undefined after the last. */
function waitAfter(number: number, delays: RetryDelays, asked: Micros = 0): Micros | undefined {
  const seconds = delays[number - 1];
  if (seconds === undefined) return undefined;
  const own = seconds * SECOND * (1 + JITTER * (2 * Math.random() - 1));
  // Later than asked for, never earlier.
  return Math.round(Math.max(own, Math.min(LONGEST_WAIT, asked * (1 + JITTER * Math.random()))));
}

/** Without what a receiver asks for, in µs. */
export function longestWait(delays: RetryDelays): Micros {
  return Math.ceil(Math.max(...delays) * SECOND * (1 + JITTER));
}

export function nameOf({ ok, retryIn }: Finished): AttemptSeen['outcome'] {
  if (ok) return 'delivered';
  if (retryIn === undefined) return 'failed';
  return retryIn === 0 ? 'handed-back' : 'retry';
}

/** Writes its line. */
export function report(log: Log, delivery: Claimed, finished: Finished, sinceClose: Micros): void {
  const { ok, status, latency, error, retryIn } = finished;
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
  else log.info({ ...fields, error, retry_in_s: retryIn / SECOND }, 'webhook failed, to be repeated');
}

/** The body is the only place where a delivery keeps it. */
function externalIdOf(body: Buffer): unknown {
  return (JSON.parse(body.toString()) as { external_id?: unknown }).external_id ?? null;
}
