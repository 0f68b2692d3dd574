/** Makes the dashboard's app, if it is on, and puts it on the API's port. */
import type { Background } from '../foundation/base/background.ts';
import { apiOrigin, type Config } from '../foundation/base/config.ts';
import type { DashboardOptions } from '../doors/dashboard/start.tsx';
import type { HttpServerOptions } from '../doors/http/server.ts';
import { followLogins } from '../operating/reports/login-log.ts';
import { sshdLogOf } from '../operating/reports/sshd-log-file.ts';

/** Undefined when the dashboard is off. Its code is imported only when it is on, since commands and an API alone do not need it. */
export async function dashboardOf(
  config: Config,
  options: Omit<DashboardOptions, 'environment' | 'apiHost' | 'linkOrigin' | 'settings' | 'logins' | 'sshdLog'> & {
    background: Background;
  },
  parts: AsyncDisposableStack,
) {
  const { dashboard, environment, stateDir, api, tls, node } = config;
  if (!dashboard.isOn) return undefined;
  const { createDashboard, isDashboard } = await import('../doors/dashboard/start.tsx');
  const apiHost = dashboard.own && `${tls.name}:${api.port}`;
  const sshdLog = sshdLogOf({ stateDir });
  const logins = parts.adopt(followLogins({ ...options.rules, ...options, log: sshdLog, node }), (each) =>
    each.close(),
  );
  const settings = { environment, apiHost, linkOrigin: apiOrigin(config), settings: dashboard };
  return { app: createDashboard({ ...options, ...settings, logins, sshdLog }), isDashboard };
}

/** Serves the API and the dashboard on one port. */
export function besideApi(
  api: HttpServerOptions['app'],
  { app, isDashboard }: { app: HttpServerOptions['app']; isDashboard(target: string): boolean },
): HttpServerOptions['app'] {
  return { fetch: (request, env) => (isDashboard(env.incoming.url ?? '') ? app : api).fetch(request, env) };
}
