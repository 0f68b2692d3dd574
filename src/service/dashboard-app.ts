/** Makes the dashboard's app, if it is on, and puts it on the API's port. */
import type { Background } from '../base/background.ts';
import { apiOrigin, type Config } from '../base/config.ts';
import type { DashboardOptions } from '../dashboard/start.tsx';
import type { HttpServerOptions } from '../http/server.ts';
import { followLogins } from '../reports/login-log.ts';
import { sshdLogOf } from '../reports/sshd-log-file.ts';

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
  const { createDashboard, isDashboard } = await import('../dashboard/start.tsx');
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
