/** Makes a registry and its metrics. Each part of berth gets only the function to which it reports. */
import type { Config } from '../../foundation/base/config.ts';
import { lastBackup } from '../../foundation/base/last-backup.ts';
import type { Log } from '../../foundation/base/log.ts';
import type { Database } from '../../foundation/db/open.ts';
import { attemptMetrics, checkMetrics, type CheckSources, requestMetrics, transferMetrics } from './events.ts';
import { type MetricsServer, startMetricsServer } from './server.ts';
import {
  eventLoopLag,
  machineMetrics,
  type MachineSources,
  processMetrics,
  stateMetrics,
  type StateSources,
} from './state.ts';
import { Registry } from './registry.ts';

export interface ServeOptions
  extends
    Omit<StateSources, 'deniedLogins' | 'node' | 'reads'>,
    Omit<MachineSources, 'certificate' | 'folders' | 'lastBackup'> {
  readonly config: Pick<Config, 'jailDir' | 'metrics' | 'node' | 'stateDir' | 'tls'>;
  readonly database: Pick<Database, 'reads'>;
  readonly paths: Pick<StateSources, 'deniedLogins'>;
  readonly log: Log;
}

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
    /** Adds the metrics that scrapes read, and serves all where the settings say. Never rejects. */
    async serve({ config, database, paths, log, ...sources }: ServeOptions): Promise<MetricsServer> {
      const { node, jailDir, stateDir, tls } = config;
      const { host, port } = config.metrics;
      stateMetrics(registry, { ...sources, reads: database.reads, node, deniedLogins: paths.deniedLogins });
      machineMetrics(registry, {
        ...sources,
        lastBackup: () => lastBackup(config),
        folders: { jails: jailDir, state: stateDir },
        certificate: tls.mode === 'proxy' ? undefined : tls.lastGood,
      });
      if (port === 'off') return { port: undefined, close: async () => undefined };
      return startMetricsServer({ registry, host, port, log });
    },
    /** Stops measuring. */
    close: () => lag[Symbol.dispose](),
  };
}
