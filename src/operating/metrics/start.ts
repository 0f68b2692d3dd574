/** Makes a registry and its metrics. Each part of berth gets only the function to which it reports. */
import type { Config } from '../../foundation/base/config.ts';
import type { Log } from '../../foundation/base/log.ts';
import { checkMetrics, type CheckSources } from './checks.ts';
import { attemptMetrics, requestMetrics, transferMetrics } from './events.ts';
import { type MetricsServer, startMetricsServer } from './server.ts';
import { machineMetrics, type MachineSources } from './machine.ts';
import { processMetrics } from './process.ts';
import { Registry } from './registry.ts';
import { eventLoopLag, stateMetrics, type StateSources } from './state.ts';

export function createMetrics() {
  const registry = new Registry();
  processMetrics(registry);
  const lag = eventLoopLag(registry);
  return {
    request: requestMetrics(registry),
    transfers: transferMetrics(registry),
    attempt: attemptMetrics(registry),
    /** Adds the metrics of the check, and returns the function to which it reports. */
    check: (sources: CheckSources) => checkMetrics(registry, sources),
    /** Adds the metrics that scrapes read, and serves all where the configuration says. Never rejects. */
    async serve(
      sources: StateSources & MachineSources,
      { host, port }: Config['metrics'],
      log: Log,
    ): Promise<MetricsServer> {
      stateMetrics(registry, sources);
      machineMetrics(registry, sources);
      if (port === 'off') return { port: undefined, close: async () => undefined };
      return startMetricsServer({ registry, host, port, log });
    },
    /** Stops measuring. */
    close: () => lag[Symbol.dispose](),
  };
}
