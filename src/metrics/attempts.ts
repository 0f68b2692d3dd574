/** What comes of webhooks. */
import { Counter, Histogram, type Registry } from 'prom-client';

export interface ObservedAttempt {
  /** `retry`: failed, to be repeated. `handed-back`: cut off by a stop, to be repeated at once. */
  readonly outcome: 'delivered' | 'retry' | 'failed' | 'handed-back';
  /** From the close of the upload's handle to the end of this attempt, in µs. */
  readonly sinceClose: number;
}

const OUTCOMES: readonly ObservedAttempt['outcome'][] = ['delivered', 'retry', 'failed', 'handed-back'];

export function attemptMetrics(registry: Registry): (attempt: ObservedAttempt) => void {
  const attempts = new Counter({
    name: 'berth_webhook_attempts_total',
    help: 'Webhook attempts by outcome; `failed` is the last attempt of a delivery.',
    labelNames: ['outcome'],
    registers: [registry],
  });
  for (const outcome of OUTCOMES) attempts.inc({ outcome }, 0);
  const latency = new Histogram({
    name: 'berth_close_to_delivery_seconds',
    help: 'From the close of an upload, as the transfer log heard it, to the successful answer of its receiver.',
    buckets: [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 900],
    registers: [registry],
  });
  return ({ outcome, sinceClose }) => {
    attempts.inc({ outcome });
    // The wall clock may have been set back in between.
    if (outcome === 'delivered') latency.observe(Math.max(0, sinceClose) / 1_000_000);
  };
}
