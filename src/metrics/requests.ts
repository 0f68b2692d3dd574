/** What the API was asked. */
import { Counter, Histogram, type Registry } from 'prom-client';

export interface ObservedRequest {
  readonly method: string;
  /** The pattern of the path; undefined when no endpoint has it. */
  readonly route: string | undefined;
  readonly status: number;
  readonly ms: number;
}

export function requestMetrics(registry: Registry): (request: ObservedRequest) => void {
  const requests = new Counter({
    name: 'berth_http_requests_total',
    help: 'API requests answered, by route and status.',
    labelNames: ['method', 'route', 'status'],
    registers: [registry],
  });
  const durations = new Histogram({
    name: 'berth_http_request_duration_seconds',
    help: 'Time until the answer to an API request was ready.',
    labelNames: ['route'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5],
    registers: [registry],
  });
  return ({ method, route = 'none', status, ms }) => {
    requests.inc({ method, route, status });
    durations.observe({ route }, ms / 1000);
  };
}
