/** The dashboard's pages. Each topic gets what it needs here, and nothing more. */
import { Hono } from 'hono';
import { jsxRenderer } from 'hono/jsx-renderer';
import type { CreateDependencies } from '../directories/create.ts';
import type { ClientAddress } from '../http/client-address.ts';
import { createRateLimit, type RateLimit } from '../http/rate-limits.ts';
import type { Log } from '../log.ts';
import type { DirectoryFiles } from '../uploads/directory-files.ts';
import type { UploadList } from '../uploads/upload-list.ts';
import type { Send } from '../webhooks/send.ts';
import { serveAssets } from './assets.ts';
import type { DashboardEnv } from './environment.ts';
import { everyRequest, withSession } from './guard.ts';
import { apiKeysPage } from './pages/api-keys.tsx';
import { directoriesPage } from './pages/directories.tsx';
import { errorPage, notFoundPage } from './pages/error.tsx';
import { signOut } from './pages/sign-out.ts';

/** Requests of one user a minute. */
const USER_LIMIT = 600;

export interface DashboardDependencies {
  readonly rules: CreateDependencies;
  readonly environment: 'live' | 'test';
  /** Host and port of the API; undefined where it is the dashboard's own. */
  readonly apiHost: string | undefined;
  readonly uploads: UploadList;
  readonly files: DirectoryFiles;
  readonly webhooks: { wake(): void; readonly send: Send };
  readonly clientAddress: ClientAddress;
  /** Requests of those who are not signed in, by their address. */
  readonly addressLimit: RateLimit;
  readonly log: Log;
}

/** Whether a request is the dashboard's, by its target as it was sent. */
export function isDashboard(target: string): boolean {
  return /^\/dashboard(?:[/?]|$)/.test(target);
}

export function createDashboard(deps: DashboardDependencies): Hono<DashboardEnv> {
  const { rules, log, environment, apiHost } = deps;
  const { database, clock } = rules;
  const app = new Hono<DashboardEnv>({ getPath: ({ url }) => new URL(url).pathname });
  app.onError((error, c) => errorPage(error, c, log));
  app.notFound(notFoundPage);

  // Gives components the request that they are rendered for.
  app.use(jsxRenderer(({ children }) => <>{children}</>, { docType: true }));
  app.use(...everyRequest(deps.clientAddress));
  serveAssets(app);

  // Pages for those who are not signed in stand before this line.
  app.use(withSession({ database, clock, userLimit: createRateLimit({ clock, limit: USER_LIMIT }) }));
  signOut(app, database);
  directoriesPage(app, rules);
  apiKeysPage(app, { database, clock, environment, apiHost });
  return app;
}
