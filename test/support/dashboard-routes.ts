/** Every route of the dashboard, as it is registered, those of the company's login too. */
import { createDashboard, type DashboardOptions } from '../../src/doors/dashboard/start.tsx';

export interface DashboardRoute {
  readonly method: string;
  readonly path: string;
}

export function dashboardRoutes(): DashboardRoute[] {
  // Stands in for all dependencies of pages, because none is used before a request.
  const anything: unknown = new Proxy(() => anything, {
    get: (_, name) => (name === Symbol.toPrimitive ? () => '' : anything),
  });
  const parts = {
    rules: { database: anything, clock: anything },
    settings: { hasPasswordLogin: true, companyLogin: anything },
  };
  const options = new Proxy(parts, { get: (known, name) => Reflect.get(known, name) ?? anything });
  const { routes } = createDashboard(options as unknown as DashboardOptions);
  const known = routes.filter(({ path }) => path.startsWith('/dashboard') && !path.endsWith('*'));
  const unique = new Map(known.map(({ method, path }) => [`${method} ${path}`, { method, path }]));
  return [...unique.values()];
}
