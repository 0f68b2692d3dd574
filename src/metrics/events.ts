/** Counts events: API requests, the actions of SFTP clients, webhook attempts. */
import { Counter, Histogram, type Registry } from 'prom-client';
import { TRANSFER_EVENTS } from '../db/schema.ts';

export interface ObservedRequest {
  readonly method: string;
  /** The path's pattern; undefined when no endpoint matches. */
  readonly route: string | undefined;
  readonly status: number;
  readonly ms: number;
}

export interface ObservedTransfer {
  readonly event: string;
  readonly bytes?: number | null | undefined;
}

export interface ObservedAttempt {
  /** `retry`: failed, and will be repeated. `handed-back`: cut off by a stop, and will be repeated at once. */
  readonly outcome: (typeof OUTCOMES)[number];
  /** From the close of the upload's handle to the end of this attempt, in µs. */
  readonly sinceClose: number;
}

const OUTCOMES = ['delivered', 'retry', 'failed', 'handed-back'] as const;

export function requestMetrics(registry: Registry): (request: ObservedRequest) => void {
  const labels = ['method', 'route', 'status'];
  const requests = counter(registry, 'berth_http_requests_total', 'API requests answered.', labels);
  const help = 'The total time until answers to API requests were ready.';
  const seconds = counter(registry, 'berth_http_request_seconds_total', help, labels);
  return ({ method, route = 'none', status, ms }) => {
    requests.inc({ method, route, status });
    seconds.inc({ method, route, status }, ms / 1000);
  };
}

/** Counts the transfers in the history. */
export function transferMetrics(registry: Registry): (transfers: readonly ObservedTransfer[]) => void {
  const help = 'Events of SFTP sessions by kind; `uploaded` counts one for each webhook.';
  const events = counter(registry, 'berth_transfers_total', help, ['event']);
  // Starts at 0: alerts see no increase of a counter that appears with its first event.
  for (const event of TRANSFER_EVENTS) events.inc({ event }, 0);
  const uploaded = counter(registry, 'berth_uploaded_bytes_total', 'Total size of uploaded files.');
  const downloaded = counter(registry, 'berth_downloaded_bytes_total', 'Total bytes read by downloads.');
  return (transfers) => {
    for (const { event, bytes } of transfers) {
      events.inc({ event });
      if (event === 'uploaded') uploaded.inc(bytes ?? 0);
      else if (event === 'downloaded') downloaded.inc(bytes ?? 0);
    }
  };
}

export function attemptMetrics(registry: Registry): (attempt: ObservedAttempt) => void {
  const help = 'Webhook attempts by outcome; `failed` is the last attempt of a delivery.';
  const attempts = counter(registry, 'berth_webhook_attempts_total', help, ['outcome']);
  for (const outcome of OUTCOMES) attempts.inc({ outcome }, 0);
  const latency = new Histogram({
    name: 'berth_close_to_delivery_seconds',
    help: 'From the close of an upload in the transfer log to the successful answer of its receiver.',
    buckets: [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 900],
    registers: [registry],
  });
  return ({ outcome, sinceClose }) => {
    attempts.inc({ outcome });
    // The difference is negative if the wall clock was set back.
    if (outcome === 'delivered') latency.observe(Math.max(0, sinceClose) / 1_000_000);
  };
}

function counter(registry: Registry, name: string, help: string, labelNames: string[] = []): Counter {
  return new Counter({ name, help, labelNames, registers: [registry] });
}
