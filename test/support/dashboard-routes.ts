/** Every route of the dashboard, as it is registered, those of the company's login too. */
import { createDashboard } from '../../src/interfaces/dashboard/app.tsx';
import type { AppContext } from '../../src/interfaces/web/context.ts';

export interface DashboardRoute {
  readonly method: string;
  readonly path: string;
}

export function dashboardRoutes(): DashboardRoute[] {
  // Stands in for all dependencies of pages, because none is used before a request.
  const anything: unknown = new Proxy(() => anything, {
    get: (_, name) => (name === Symbol.toPrimitive ? () => '' : anything),
  });
  // Pages copy parts of it, which a proxy alone does not have.
  const parts = {
    database: anything,
    clock: anything,
    config: {
      dashboard: { hasPasswordLogin: true, companyLogin: anything },
      api: anything,
      tls: anything,
      apiUrl: 'https://api.example',
    },
  };
  const options = new Proxy(parts, { get: (known, name) => Reflect.get(known, name) ?? anything });
  const { routes } = createDashboard(options as unknown as AppContext, new AbortController().signal);
  const known = routes.filter(({ path }) => path.startsWith('/dashboard') && !path.endsWith('*'));
  const unique = new Map(known.map(({ method, path }) => [`${method} ${path}`, { method, path }]));
  return [...unique.values()];
}
