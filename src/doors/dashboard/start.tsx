/** The dashboard's pages. Each topic gets only the options that it needs. */
import type { IncomingMessage } from 'node:http';
import { Hono } from 'hono';
import { jsxRenderer } from 'hono/jsx-renderer';
import type { HeldFiles } from '../../arrivals/checks/held.ts';
import { apiOrigin, type Config } from '../../foundation/base/config.ts';
import type { RuleContext } from '../../rules/directories/target.ts';
import type { LiveSessions } from '../../rules/directories/end-session.ts';
import { type ClientAddress, clientNetwork, clientSite } from '../web/client-address.ts';
import { type AnsweredRequest, observed } from '../web/observe.ts';
import { createAddressLimit, createRateLimit, createSteadyLimit, type RateLimit } from '../web/rate-limits.ts';
import { rawPath } from '../web/requested-path.ts';
import type { Turn } from '../web/turns.ts';
import type { PublicHostKeys } from '../../machine/sftp/public-host-keys.ts';
import type { MayReach } from '../web/warnings.ts';
import type { Log } from '../../foundation/base/log.ts';
import type { LoginLog } from '../../operating/reports/login-log.ts';
import type { DirectoryFiles } from '../../arrivals/files/directory-files.ts';
import type { FileChanges } from '../../arrivals/uploads/file-changes.ts';
import type { UploadList } from '../../arrivals/uploads/upload-list.ts';
import type { PasswordHashing } from '../../rules/users/password-hashing.ts';
import { createPasswords } from '../../rules/users/passwords.ts';
import { createSignIn } from '../../rules/users/sign-in.ts';
import { createTries } from '../../rules/users/tries.ts';
import type { Send } from '../../deliveries/webhooks/send.ts';
import { serveAssets } from './assets.ts';
import { noteDone } from './after-redirect.ts';
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
import { heldPages } from './pages/held.tsx';
import { partialPages } from './pages/partial.tsx';
import { profilePage } from './pages/profile.tsx';
import { secondFactorPage } from './pages/second-factor.tsx';
import { signInCodePage, signInPage, signOut } from './pages/sign-in.tsx';
import { teamPage } from './pages/team.tsx';
import { userPage } from './pages/user.tsx';
import { webhookPages } from './pages/webhook.tsx';
import { createStored } from './queries/home.ts';

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

export interface DashboardOptions {
  readonly rules: RuleContext;
  /** Host and port of the API; undefined if they are the dashboard's own. */
  readonly apiHost: string | undefined;
  /** The origin of this machine's API, and of its links. */
  readonly linkOrigin: string;
  readonly settings: Pick<Config['dashboard'], 'hasPasswordLogin' | 'companyLogin' | 'url'>;
  readonly uploads: UploadList;
  readonly files: DirectoryFiles;
  readonly held: HeldFiles;
  readonly fileTurn: Turn;
  readonly changes: FileChanges;
  readonly hostKeys: () => Promise<PublicHostKeys>;
  readonly sessions: LiveSessions;
  readonly logins: LoginLog;
  readonly webhooks: { wake(): void; readonly send: Send };
  readonly mayReach: MayReach;
  readonly testTurn: Turn;
  readonly clientAddress: ClientAddress;
  /** Limits requests without a session, by their address. */
  readonly addressLimit: RateLimit;
  /** How passwords are kept; tests have one that costs next to nothing. */
  readonly hashing?: PasswordHashing | undefined;
  /** Aborted when the service closes. */
  readonly closing: AbortSignal;
  readonly log: Log;
}

export interface StartOptions extends Omit<DashboardOptions, 'apiHost' | 'closing' | 'linkOrigin' | 'settings'> {
  readonly config: Pick<Config, 'api' | 'apiUrl' | 'dashboard' | 'environment' | 'tls'>;
  /** Called with each answered request. */
  observe(request: AnsweredRequest): void;
}

export function startDashboard({ config, observe, ...options }: StartOptions) {
  const { api, dashboard: settings, tls } = config;
  const closing = new AbortController();
  const app = createDashboard({
    ...options,
    settings,
    apiHost: settings.own && `${tls.name}:${api.port}`,
    linkOrigin: apiOrigin(config),
    closing: closing.signal,
  });
  return {
    app: observed(app, { log: options.log, observe }),
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

export function createDashboard(options: DashboardOptions): Hono<DashboardEnv> {
  const { rules, log, apiHost } = options;
  const { hasPasswordLogin, companyLogin, url } = options.settings;
  const { database, clock } = rules;
  const app = new Hono<DashboardEnv>({ getPath: (_, bindings) => rawPath(bindings?.env?.incoming ?? {}) });
  app.onError((error, c) => errorPage(error, c, log));
  app.notFound(notFoundPage);

  // Gives components the request that they are rendered for.
  app.use(jsxRenderer(({ children }) => <>{children}</>, { docType: true }));
  app.use('/dashboard/link/*', hidingLink);
  app.use(...everyRequest(options.clientAddress));
  app.use(noteDone);
  app.get('/', (c) => c.redirect('/dashboard', 302));
  serveAssets(app);

  const userLimit = createRateLimit({ clock, limit: USER_LIMIT });
  app.use(findSession({ database, clock, userLimit, addressLimit: options.addressLimit }));

  const passwords = createPasswords(options.hashing);
  const entry = { database, clock, passwords };
  const signIn = createSignIn({
    ...entry,
    networkOf: { network: clientNetwork, site: clientSite },
    limits: attemptLimits(),
  });
  signInPage(app, database, {
    signIn: hasPasswordLogin ? signIn : undefined,
    companyLogin: companyLogin && COMPANY_LOGIN,
  });
  if (companyLogin) companyLoginPages(app, { ...companyLogin, url }, { database, clock, log });
  linkPage(app, entry);

  // Pages that require no session are added before this line.
  app.use(requireSession, withinLimits);
  for (const [old, address] of Object.entries(MOVED)) app.get(old, (c) => c.redirect(address, 303));
  const secondFactor = { ...entry, tries: createTries({ database, clock }) };
  signInCodePage(app, secondFactor);
  signOut(app, database);
  const stored = createStored(database.reads);
  homePage(app, { ...options, database, clock, stored });
  directoriesPage(app, rules);
  importPage(app, rules, log);
  findPage(app, database.reads);
  app.use('/dashboard/directories/:id/*', withDirectory({ ...options, clock, reads: database.reads }));
  formerAddresses(app);
  accessPage(app, rules, options);
  settingsPage(app, rules);
  const live = createLive({ ...options, database, clock });
  filesPage(app, { ...options, reads: database.reads, live });
  activityPage(app, { ...options, database, clock, live });
  filePages(app, { ...options, rules: { ...rules, ...options.webhooks } });
  partialPages(app, { ...options, reads: database.reads });
  linksPage(app, options);
  heldPages(app, options);
  webhookPages(app, { ...options, rules: { ...rules, ...options.webhooks } });
  apiKeysPage(app, rules, apiHost);
  teamPage(app, rules);
  userPage(app, rules);
  accountDeliveriesPage(app, { ...options, rules: { ...rules, ...options.webhooks }, live });
  accountPage(app, { ...options, stored, rules: { ...rules, ...options.webhooks } });
  profilePage(app, secondFactor);
  secondFactorPage(app, secondFactor);
  return app;
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
