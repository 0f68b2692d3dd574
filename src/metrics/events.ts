/** Counters of what happens: API requests, what SFTP clients do, webhook attempts. */
import { Counter, Histogram, type Registry } from 'prom-client';
import { TRANSFER_EVENTS } from '../db/schema.ts';

export interface ObservedRequest {
  readonly method: string;
  /** The pattern of the path; undefined when no endpoint has it. */
  readonly route: string | undefined;
  readonly status: number;
  readonly ms: number;
}

export interface ObservedTransfer {
  readonly event: string;
  readonly bytes?: number | null | undefined;
}

export interface ObservedAttempt {
  /** `retry`: failed, to be repeated. `handed-back`: cut off by a stop, to be repeated at once. */
  readonly outcome: (typeof OUTCOMES)[number];
  /** From the close of the upload's handle to the end of this attempt, in µs. */
  readonly sinceClose: number;
}

const OUTCOMES = ['delivered', 'retry', 'failed', 'handed-back'] as const;

export function requestMetrics(registry: Registry): (request: ObservedRequest) => void {
  const labels = ['method', 'route', 'status'];
  const requests = counter(registry, 'berth_http_requests_total', 'API requests answered.', labels);
  const help = 'Time until the answers to API requests were ready, together.';
  const seconds = counter(registry, 'berth_http_request_seconds_total', help, labels);
  return ({ method, route = 'none', status, ms }) => {
    requests.inc({ method, route, status });
    seconds.inc({ method, route, status }, ms / 1000);
  };
}

/** Metrics of the transfers in the history. */
export function transferMetrics(registry: Registry): (transfers: readonly ObservedTransfer[]) => void {
  const help = 'Events of SFTP sessions by kind; `uploaded` is one for each webhook event.';
  const events = counter(registry, 'berth_transfers_total', help, ['event']);
  // A counter that appears with its first event has no increase for alerts to see.
  for (const event of TRANSFER_EVENTS) events.inc({ event }, 0);
  const uploaded = counter(registry, 'berth_uploaded_bytes_total', 'Sizes of uploaded files together.');
  const downloaded = counter(registry, 'berth_downloaded_bytes_total', 'Bytes read by downloads together.');
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

function counter(registry: Registry, name: string, help: string, labelNames: string[] = []): Counter {
  return new Counter({ name, help, labelNames, registers: [registry] });
}
