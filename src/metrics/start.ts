/** A registry and what fills it. Each part of berth gets the one function that it reports to, and nothing more. */
import { Registry } from 'prom-client';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { attemptMetrics, type ObservedAttempt } from './attempts.ts';
import { processMetrics } from './process.ts';
import { type ObservedRequest, requestMetrics } from './requests.ts';
import { type MetricsServer, startMetricsServer } from './server.ts';
import { stateMetrics, type StateSources } from './state.ts';
import { type ObservedTransfer, transferMetrics } from './transfers.ts';

export interface Metrics {
  request(request: ObservedRequest): void;
  transfers(transfers: readonly ObservedTransfer[]): void;
  attempt(attempt: ObservedAttempt): void;
  /** Adds what a scrape looks at, and serves it all where the configuration says. Never rejects. */
  serve(sources: StateSources, config: Config['metrics'], log: Log): Promise<MetricsServer>;
  /** Stops measuring. */
  close(): void;
}

export function createMetrics(): Metrics {
  const registry = new Registry();
  const measuring = processMetrics(registry);
  return {
    request: requestMetrics(registry),
    transfers: transferMetrics(registry),
    attempt: attemptMetrics(registry),
    async serve(sources, { host, port }, log) {
      stateMetrics(registry, sources);
      if (port === 'off') return { port: undefined, close: async () => undefined };
      return startMetricsServer({ registry, host, port, log });
    },
    close: () => measuring[Symbol.dispose](),
  };
}
