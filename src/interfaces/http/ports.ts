/**
 * Listens on the ports of the API and the dashboard, with their certificate. Without one that can be used, the ports refuse every
 * handshake until there is.
 */
import type { IncomingMessage } from 'node:http';
import type { AppContext } from '../web/context.ts';
import { firstPair, followCertificate, type TlsPair } from './certificate.ts';
import { connectionLimits } from './connections.ts';
import { NoCertificateError, type Readiness } from './health.ts';
import { type HttpServerOptions, startHttpServer } from './server.ts';

/** How long requests in flight may take at the end. The whole shutdown stays below 10 s. */
const GRACE_MS = 4000;

type App = HttpServerOptions['app'];

interface Apps {
  readonly api: App;
  readonly dashboard: DashboardApp | undefined;
}

interface DashboardApp {
  readonly app: App;
  /** Whether a request is for the dashboard, by its target as it was sent. */
  isDashboard(request: Pick<IncomingMessage, 'url' | 'headers'>): boolean;
  /** Ends the pages that stay open for updates. */
  endUpdates(): void;
}

export interface Ports {
  readonly port: number;
  /** Undefined without a dashboard. */
  readonly dashboardPort: number | undefined;
  /** Reads the certificate's files now. */
  reload(): void;
  /** Whether the configured files hold a certificate that cannot be used. */
  isCertificateRefused(): boolean;
  /** Lets requests in flight finish for a while. */
  close(): Promise<void>;
}

/** @throws {OperatorError} when an address is in use or not this machine's. */
export async function openPorts(
  { config, background, log, web }: AppContext,
  { api, dashboard }: Apps,
  readiness: Readiness,
): Promise<Ports> {
  await using parts = new AsyncDisposableStack();
  const first = config.tls.mode === 'proxy' ? undefined : await firstPair(config.tls, log);
  const { own } = config.dashboard;
  const listening = {
    nameRequest: web.nameRequest,
    isProxy: web.isProxy,
    tls: first ? (first.pair ?? 'pending') : 'proxy',
    connections: connectionLimits(dashboard && own ? 2 : 1),
  } as const;
  const both = dashboard && !own ? besideApi(api, dashboard) : api;
  const server = await startHttpServer({ ...listening, ...config.api, app: both });
  parts.defer(() => server.close(GRACE_MS));
  const settings = 'BERTH_DASHBOARD_HOST, BERTH_DASHBOARD_PORT';
  const other = dashboard && own && (await startHttpServer({ ...listening, ...own, settings, app: dashboard.app }));
  parts.defer(() => other?.close(GRACE_MS));
  parts.defer(() => dashboard?.endUpdates());
  readiness.obstacle = first && !first.pair ? new NoCertificateError() : undefined;
  const use = (pair: TlsPair): void => {
    for (const each of [server, other]) each?.useCertificate(pair);
    readiness.obstacle = undefined;
  };
  const follower = first && followCertificate({ tls: config.tls, background, log, first, use });
  parts.defer(() => follower?.close());
  const owned = parts.move();
  return {
    port: server.port,
    dashboardPort: dashboard && (other ?? server).port,
    reload: () => follower?.inspect(),
    isCertificateRefused: () => follower?.isRefused() ?? false,
    close: () => owned.disposeAsync(),
  };
}

/** Serves the API and the dashboard on one port. */
function besideApi(api: App, { app, isDashboard }: DashboardApp): App {
  return { fetch: (request, env) => (isDashboard(env.incoming) ? app : api).fetch(request, env) };
}
