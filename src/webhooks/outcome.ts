/** What follows from an attempt's answer: delivered, repeated, handed back or given up; and what the log says of it. */
import { DAY, type Micros } from '../clock.ts';
import type { Log } from '../log.ts';
import { type RetryDelays, waitAfter } from './backoff.ts';
import type { Claimed } from './claim.ts';
import type { Finished } from './finish.ts';
import type { Answer } from './send.ts';

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
  const isHandedBack = isStopping && answer.status === null;
  const isSpared = answer.isShortage === true && sinceClose < SPARED;
  const retryIn = isHandedBack ? 0 : waitAfter(isSpared ? 1 : attempts, retryDelays, Math.random());
  return { id, attempts, ...answer, retryIn, isSpared };
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
  else log.info({ ...fields, error, retry_in_s: retryIn / 1_000_000 }, 'webhook failed, to be repeated');
}

/** The body is the only place where a delivery keeps it. */
function externalIdOf(body: Buffer): unknown {
  return (JSON.parse(body.toString()) as { external_id?: unknown }).external_id ?? null;
}
