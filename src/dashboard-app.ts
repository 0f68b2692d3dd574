/** The dashboard as an app of its own, if it is on, and how it shares a port with the API. */
import type { Background } from './background.ts';
import type { Config } from './config.ts';
import type { DashboardDependencies } from './dashboard/start.tsx';
import type { HttpServerOptions } from './http/server.ts';
import { followLogins } from './reports/login-log.ts';
import { sshdLogOf } from './reports/sshd-log-source.ts';

/** Undefined when there is none. Loaded only then: commands and an API alone need nothing of it. */
export async function dashboardOf(
  { dashboard, environment, stateDir, api, tls, node }: Config,
  deps: Omit<DashboardDependencies, 'environment' | 'apiHost' | 'settings' | 'logins' | 'sshdLog'> & {
    background: Background;
  },
  parts: AsyncDisposableStack,
) {
  if (!dashboard.isOn) return undefined;
  const { createDashboard, isDashboard } = await import('./dashboard/start.tsx');
  const apiHost = dashboard.own && `${tls.name}:${api.port}`;
  const sshdLog = sshdLogOf({ stateDir });
  const logins = parts.adopt(followLogins({ ...deps.rules, ...deps, log: sshdLog, node }), (each) => each.close());
  return { app: createDashboard({ ...deps, environment, apiHost, settings: dashboard, logins, sshdLog }), isDashboard };
}

/** One port for both. */
export function besideApi(
  api: HttpServerOptions['app'],
  { app, isDashboard }: { app: HttpServerOptions['app']; isDashboard(target: string): boolean },
): HttpServerOptions['app'] {
  return { fetch: (request, env) => (isDashboard(env.incoming.url ?? '') ? app : api).fetch(request, env) };
}
