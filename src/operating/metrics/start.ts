/** Makes a registry and its metrics. Each part of berth gets only the function to which it reports. */
import type { Config } from '../../foundation/base/config.ts';
import { lastBackup } from '../../foundation/base/last-backup.ts';
import type { Log } from '../../foundation/base/log.ts';
import type { Database } from '../../foundation/db/open.ts';
import { attemptMetrics, checkMetrics, type CheckSources, requestMetrics, transferMetrics } from './events.ts';
import {
  eventLoopLag,
  machineMetrics,
  type MachineSources,
  processMetrics,
  stateMetrics,
  type StateSources,
} from './state.ts';
import { CONTENT_TYPE, Registry } from './registry.ts';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorMessage } from '../../foundation/base/errors.ts';

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

// Serves `/metrics` to Prometheus, by plain HTTP on a port of its own. If the port is taken, it only logs that, since
// berth works without metrics.

export interface MetricsServer {
  /** Undefined when it could not listen. */
  readonly port: number | undefined;
  close(): Promise<void>;
}

export interface MetricsServerOptions {
  readonly registry: Pick<Registry, 'text'>;
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
  readonly log: Log;
}

/** Enough for a few scrapers. Silent connections are closed soon. */
const LIMITS = { maxHeaderSize: 8192, headersTimeout: 5000, requestTimeout: 5000, keepAliveTimeout: 20_000 } as const;
const MAX_CONNECTIONS = 20;

/** Never rejects. */
async function startMetricsServer({ registry, host, port, log }: MetricsServerOptions): Promise<MetricsServer> {
  const server = createServer(LIMITS, (request, response) => {
    request.resume();
    const path = request.url?.split('?')[0];
    if (path !== '/metrics') return answer(response, 404, 'Not found\n');
    if (request.method !== 'GET' && request.method !== 'HEAD') return answer(response, 405, 'Method not allowed\n');
    registry.text().then(
      (text) => answer(response, 200, text, CONTENT_TYPE),
      (error: unknown) => {
        log.error({ err: error }, 'cannot collect metrics');
        answer(response, 500, 'Cannot collect metrics; see the log for the reason\n');
      },
    );
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    log.warn(
      { host, port },
      `no metrics: cannot listen on ${host}:${port} (${errorMessage(error)}); set BERTH_METRICS_PORT to a free port, or to off`,
    );
    return { port: undefined, close: async () => undefined };
  }
  server.on('error', (error) => log.warn({ err: error }, 'the metrics listener failed'));
  return { port: (server.address() as AddressInfo).port, close: () => close(server) };
}

function answer(response: ServerResponse, status: number, body: string, type = 'text/plain; charset=utf-8'): void {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) });
  response.end(body);
}

async function close(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await closed;
}
