/**
 * What the API was asked. Counted in plain numbers and handed to Prometheus when it asks: labels cost more than
 * everything else that is done to count a request.
 */
import { Counter, type Registry } from 'prom-client';

export interface ObservedRequest {
  readonly method: string;
  /** The pattern of the path; undefined when no endpoint has it. */
  readonly route: string | undefined;
  readonly status: number;
  readonly ms: number;
}

interface Tally {
  readonly labels: { readonly method: string; readonly route: string; readonly status: number };
  count: number;
  ms: number;
}

export function requestMetrics(registry: Registry): (request: ObservedRequest) => void {
  const tallies = new Map<string, Tally>();
  const labelNames = ['method', 'route', 'status'] as const;
  const counter = (name: string, help: string, read: (tally: Tally) => number): void => {
    const metric = new Counter({
      name,
      help,
      labelNames,
      registers: [],
      collect() {
        this.reset();
        for (const tally of tallies.values()) this.inc(tally.labels, read(tally));
      },
    });
    registry.registerMetric(metric);
  };
  counter('berth_http_requests_total', 'API requests answered, by route and status.', ({ count }) => count);
  counter(
    'berth_http_request_seconds_total',
    'Time until the answers to API requests were ready, together.',
    ({ ms }) => ms / 1000,
  );
  return ({ method, route = 'none', status, ms }) => {
    const key = `${method} ${status} ${route}`;
    let tally = tallies.get(key);
    if (!tally) {
      tally = { labels: { method, route, status }, count: 0, ms: 0 };
      tallies.set(key, tally);
    }
    tally.count += 1;
    tally.ms += ms;
  };
}
