/** Counts events: API requests, the actions of SFTP clients, webhook attempts. */
import { TRANSFER_EVENTS } from '../../foundation/db/schema.ts';
import { counter, histogram, type Registry } from './registry.ts';

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
  const requests = counter(registry, { name: 'berth_http_requests_total', help: 'API requests answered.' });
  const help = 'The total time until answers to API requests were ready.';
  const seconds = counter(registry, { name: 'berth_http_request_seconds_total', help });
  return ({ method, route = 'none', status, ms }) => {
    requests(1, { method, route, status });
    seconds(ms / 1000, { method, route, status });
  };
}

/** Counts the transfers in the history. */
export function transferMetrics(registry: Registry): (transfers: readonly ObservedTransfer[]) => void {
  const help = 'Events of SFTP sessions by kind; `uploaded` counts one for each webhook.';
  const known = TRANSFER_EVENTS.map((event) => ({ event }));
  const events = counter(registry, { name: 'berth_transfers_total', help }, known);
  const up = { name: 'berth_uploaded_bytes_total', help: 'Total size of uploaded files.' };
  const uploaded = counter(registry, up, [{}]);
  const down = { name: 'berth_downloaded_bytes_total', help: 'Total bytes read by downloads.' };
  const downloaded = counter(registry, down, [{}]);
  return (transfers) => {
    for (const { event, bytes } of transfers) {
      events(1, { event });
      if (event === 'uploaded') uploaded(bytes ?? 0);
      else if (event === 'downloaded') downloaded(bytes ?? 0);
    }
  };
}

export function attemptMetrics(registry: Registry): (attempt: ObservedAttempt) => void {
  const help = 'Webhook attempts by outcome; `failed` is the last attempt of a delivery.';
  const known = OUTCOMES.map((outcome) => ({ outcome }));
  const attempts = counter(registry, { name: 'berth_webhook_attempts_total', help }, known);
  const latency = histogram(
    registry,
    {
      name: 'berth_close_to_delivery_seconds',
      help: 'From the close of an upload in the transfer log to the successful answer of its receiver.',
    },
    [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 900],
  );
  return ({ outcome, sinceClose }) => {
    attempts(1, { outcome });
    // The difference is negative if the wall clock was set back.
    if (outcome === 'delivered') latency(Math.max(0, sinceClose) / 1_000_000);
  };
}
