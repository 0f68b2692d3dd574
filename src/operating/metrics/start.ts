/** Makes a registry and its metrics. Each part of berth gets only the function to which it reports. */
import { attemptMetrics, checkMetrics, requestMetrics, transferMetrics } from './events.ts';
import { type Asked, eventLoopLag, machineMetrics, type Measured, processMetrics, stateMetrics } from './state.ts';
import { CONTENT_TYPE, Registry } from './registry.ts';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorMessage } from '../../foundation/base/errors.ts';

export function createMetrics() {
  const registry = new Registry();
  processMetrics(registry);
  const lag = eventLoopLag(registry);
  return {
    request: requestMetrics(registry),
    transfers: transferMetrics(registry),
    attempt: attemptMetrics(registry),
    /** Adds the metrics of the check, and returns the function to which it reports. */
    check: (ground: Parameters<typeof checkMetrics>[1]) => checkMetrics(registry, ground),
    /** Adds the metrics that scrapes read, and serves all where the settings say. Never rejects. */
    async serve(ground: Measured, asked: Asked): Promise<MetricsServer> {
      stateMetrics(registry, ground, asked);
      machineMetrics(registry, ground.config, asked);
      return startMetricsServer(registry, ground);
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

/** Enough for a few scrapers. Silent connections are closed soon. */
const LIMITS = { maxHeaderSize: 8192, headersTimeout: 5000, requestTimeout: 5000, keepAliveTimeout: 20_000 } as const;
const MAX_CONNECTIONS = 20;

/** Never rejects. */
async function startMetricsServer(registry: Registry, { config, log }: Measured): Promise<MetricsServer> {
  const { host, port } = config.metrics;
  if (port === 'off') return { port: undefined, close: async () => undefined };
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
