/** The dashboard's pages. */
import type { AppContext } from '../web/context.ts';
import type { IncomingMessage } from 'node:http';
import { Hono } from 'hono';
import { jsxRenderer } from 'hono/jsx-renderer';
import { clientNetwork, clientSite } from '../web/client-address.ts';
import { observed } from '../web/observe.ts';
import { createAddressLimit, createRateLimit, createSteadyLimit } from '../web/rate-limits.ts';
import { rawPath } from '../web/requested-path.ts';
import { createPasswords } from '../../rules/users/passwords.ts';
import { createSignIn } from '../../rules/users/sign-in.ts';
import { createTries } from '../../rules/users/second-factor.ts';
import { noteDone } from './after-redirect.ts';
import { askFirst } from './components/confirmation.tsx';
import { type DashboardEnv, pathOf } from './environment.ts';
import { everyRequest, findSession, requireSession, withDirectory } from './guard.ts';
import { withinLimits } from './limits.ts';
import { createLive } from './live.tsx';
import { accountDeliveriesPage } from './pages/account-deliveries.tsx';
import { accountPage } from './pages/account.tsx';
import { ACTIVITY, activityPage } from './pages/activity.tsx';
import { apiKeysPage } from './pages/api-keys.tsx';
import { COMPANY_LOGIN, companyLoginPages } from './pages/company-login.tsx';
import { directoriesPage } from './pages/directories.tsx';
import { accessPage } from './pages/directory/access.tsx';
import { settingsPage } from './pages/directory/settings.tsx';
import { errorPage, notFoundPage } from './pages/error.tsx';
import { filePages } from './pages/file.tsx';
import { filesPage } from './pages/files.tsx';
import { findPage } from './pages/find.ts';
import { hidingLink, linkPage } from './pages/password-link.tsx';
import { linksPage } from './pages/links.tsx';
import { homePage } from './pages/home.tsx';
import { importPage } from './pages/import.tsx';
import { unannouncedForms } from './pages/unannounced.tsx';
import { profilePage } from './pages/profile.tsx';
import { secondFactorPage } from './pages/second-factor.tsx';
import { signInCodePage, signInPage, signOut } from './pages/sign-in.tsx';
import { teamPage } from './pages/team.tsx';
import { userPage } from './pages/user.tsx';
import { webhookPages } from './pages/webhook.tsx';
import { createStored } from '../../rules/directories/view.ts';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

/** How many requests a user may make per minute. */
const USER_LIMIT = 600;
/** How many attempts to sign in are allowed per minute: from a network, and for a user from one site. */
const NETWORK_ATTEMPTS = 20;
const USER_ATTEMPTS = 10;

/** Where the pages are that had an address of their own before. */
const MOVED = {
  '/dashboard/failing-webhooks': '/dashboard',
  '/dashboard/sessions': ACTIVITY,
  '/dashboard/account/audit.csv': `${ACTIVITY}/export.csv?topic=changes`,
};

export function startDashboard(context: AppContext) {
  const closing = new AbortController();
  return {
    app: observed(createDashboard(context, closing.signal), context),
    isDashboard,
    /** Ends the pages that stay open for updates. */
    endUpdates: () => closing.abort(),
  };
}

/** Whether a request is for the dashboard, by its target as it was sent. A browser that asks for `/` is led there. */
function isDashboard({ url = '', headers }: Pick<IncomingMessage, 'url' | 'headers'>): boolean {
  if (url === '/') return headers.accept?.includes('text/html') ?? false;
  return /^\/dashboard(?:[/?]|$)/.test(url);
}

/** @param closing aborted when the service closes. */
export function createDashboard(context: AppContext, closing: AbortSignal): Hono<DashboardEnv> {
  const { config, database, clock, log } = context;
  const { hasPasswordLogin, companyLogin, url } = config.dashboard;
  const app = new Hono<DashboardEnv>({ getPath: (_, bindings) => rawPath(bindings?.env?.incoming ?? {}) });
  app.onError((error, c) => errorPage(error, c, log));
  app.notFound((c) => {
    const above = c.req.method === 'GET' && pageAbove(app, c.req.path);
    return above ? c.redirect(above, 303) : notFoundPage(c);
  });

  // Gives components the request that they are rendered for.
  app.use(jsxRenderer(({ children }) => <>{children}</>, { docType: true }));
  app.use('/dashboard/link/*', hidingLink);
  app.use(...everyRequest(context.web.clientAddress));
  app.use(noteDone);
  app.get('/', (c) => c.redirect('/dashboard', 302));
  serveAssets(app);

  app.use(findSession(context, createRateLimit({ clock, limit: USER_LIMIT })));

  const passwords = createPasswords(context.hashing);
  const entry = { ...context, passwords };
  const signIn = createSignIn({
    ...entry,
    networkOf: { network: clientNetwork, site: clientSite },
    limits: attemptLimits(),
  });
  signInPage(app, database, {
    signIn: hasPasswordLogin ? signIn : undefined,
    companyLogin: companyLogin && COMPANY_LOGIN,
  });
  if (companyLogin) companyLoginPages(app, { ...companyLogin, url }, context);
  linkPage(app, entry);

  // Pages that require no session are added before this line.
  app.use(requireSession, withinLimits, askFirst);
  for (const [old, address] of Object.entries(MOVED)) app.get(old, (c) => c.redirect(address, 303));
  const secondFactor = { ...entry, tries: createTries(context) };
  signInCodePage(app, secondFactor);
  signOut(app, database);
  const stored = createStored(database.reads);
  homePage(app, context, stored);
  directoriesPage(app, context);
  importPage(app, context);
  findPage(app, context);
  app.use('/dashboard/directories/:id/*', withDirectory(context));
  formerAddresses(app);
  accessPage(app, context);
  settingsPage(app, context);
  const live = createLive(context, closing);
  filesPage(app, context, live);
  activityPage(app, context, live);
  filePages(app, context);
  linksPage(app, context);
  unannouncedForms(app, context);
  webhookPages(app, context);
  apiKeysPage(app, context);
  teamPage(app, context);
  userPage(app, context);
  accountDeliveriesPage(app, context, live);
  accountPage(app, context, stored);
  profilePage(app, secondFactor);
  secondFactorPage(app, secondFactor);
  return app;
}

/** The page above a form's address. That address stays in the browser after a refusal, and some were pages that asked a question. */
function pageAbove({ router }: Hono<DashboardEnv>, path: string): string | undefined {
  const routes = (method: string, at: string): number => router.match(method, at)[0].length;
  // No route is for TRACE: what matches it is not of one page.
  const has = (method: string, at: string): boolean => routes(method, at) > routes('TRACE', at);
  if (!has('POST', path)) return undefined;
  let above = path;
  do above = above.slice(0, above.lastIndexOf('/'));
  while (above !== '' && !has('GET', above));
  return above;
}

/** A directory opens on its files. The former addresses of its pages may be bookmarks. */
function formerAddresses(app: Hono<DashboardEnv>): void {
  const pages = { '': 'files', '/connect': 'access', '/login': 'access' };
  for (const [former, page] of Object.entries(pages))
    app.get(`/dashboard/directories/:id${former}`, (c) => c.redirect(`${pathOf(c)}/${page}`, 303));
}

/** Limits that use the monotonic clock. */
function attemptLimits() {
  const clock = () => performance.now();
  const byAddress = createAddressLimit({ limit: NETWORK_ATTEMPTS, clock });
  return { byAddress, byUser: createSteadyLimit({ limit: USER_ATTEMPTS, clock }) };
}

// Serves the stylesheet, the scripts and the mark: files of `static/`, read and compressed once, with an ETag of their
// content.

const TYPES = {
  'style.css': 'text/css; charset=utf-8',
  'script.js': 'text/javascript; charset=utf-8',
  'dom.js': 'text/javascript; charset=utf-8',
  'find.js': 'text/javascript; charset=utf-8',
  'mark.svg': 'image/svg+xml',
} as const;

/** Read from `src/`, which an installation has beside the compiled program. */
const FOLDER = new URL('../../../src/interfaces/dashboard/static/', import.meta.url);

function serveAssets(app: Hono<DashboardEnv>): void {
  for (const [name, type] of Object.entries(TYPES)) {
    const text = readFileSync(new URL(name, FOLDER), 'utf8');
    const etag = `"${createHash('sha256').update(text).digest('base64url').slice(0, 16)}"`;
    const headers = { etag, 'content-type': type, 'cache-control': 'max-age=600', vary: 'accept-encoding' };
    const compressed = new Uint8Array(gzipSync(text));
    app.get(`/dashboard/static/${name}`, (c) => {
      if (c.req.header('if-none-match') === etag) return c.body(null, 304, headers);
      return /\bgzip\b/.test(c.req.header('accept-encoding') ?? '')
        ? c.body(compressed, 200, { ...headers, 'content-encoding': 'gzip' })
        : c.body(text, 200, headers);
    });
  }
}
