/**
 * Runs before every page: sets headers, and checks the session and the size, type and origin of forms. Pages that require no
 * session are added before the session is checked (`app.tsx`).
 */
import type { MiddlewareHandler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { csrf } from 'hono/csrf';
import { routePath } from 'hono/route';
import { secureHeaders } from 'hono/secure-headers';
import { requireDirectory } from '../../rules/accounts/actor.ts';
import { liveDirectory } from '../../rules/directories/target.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import type { ClientAddress } from '../web/client-address.ts';
import type { AppContext } from '../web/context.ts';
import type { RateLimit } from '../web/rate-limits.ts';
import { sessionOf } from '../../rules/users/sessions.ts';
import { IMPORT } from './directories-view.ts';
import { accessState, directoryStatus } from './directory-status.ts';
import { cameFrom, type DashboardEnv, isAdmin, type PageContext, targetOf, visitorOf } from './environment.ts';
import { isFormOf, clearSession, csrfToken, sessionToken } from './session-cookie.ts';

type Handler = MiddlewareHandler<DashboardEnv>;

const FORM_LIMIT_BYTES = 65_536;
/** For a hundred rows with long texts: a letter that is not ASCII takes up to twelve bytes. */
const IMPORT_LIMIT_BYTES = 1_048_576;

const headers: Handler = secureHeaders({
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    scriptSrc: ["'self'"],
    styleSrc: ["'self'"],
    imgSrc: ["'self'", 'data:'],
    connectSrc: ["'self'"],
    formAction: ["'self'"],
    baseUri: ["'none'"],
    frameAncestors: ["'none'"],
  },
  xFrameOptions: 'DENY',
  referrerPolicy: 'same-origin',
  // Left to the operator, since it applies to the whole host, and locks people out if the certificate is self-signed.
  strictTransportSecurity: false,
});

/** Compares hosts only, since behind a proxy the request's URL has another scheme. */
const sameOrigin: Handler = csrf({ origin: (origin, c) => URL.parse(origin)?.host === c.req.header('host') });

/** Refuses forms of any other type than ours, before anything tries to parse them. */
const formsOnly: Handler = async (c, next) => {
  const type = c.req.header('content-type')?.split(';')[0]?.trim().toLowerCase();
  if (c.req.method === 'POST' && type !== 'application/x-www-form-urlencoded')
    throw new BerthError('unsupported_media_type', 'This form is not from these pages.');
  return next();
};

/** For all requests to the dashboard. */
export function everyRequest(clientAddress: ClientAddress): Handler[] {
  const known: Handler = async (c, next) => {
    const agent = c.req.header('user-agent') ?? '';
    c.set('visit', { address: clientAddress(c.env.incoming), agent });
    await next();
    c.env.notes.route ??= routePath(c, -1);
    if (!c.res.headers.has('cache-control')) c.header('cache-control', 'no-store');
    // A customer's file must not act as one of our pages, whatever the browser takes it for.
    if (c.res.headers.has('content-disposition')) c.header('content-security-policy', "default-src 'none'; sandbox");
  };
  const limited = limitedTo(FORM_LIMIT_BYTES);
  const limitedImport = limitedTo(IMPORT_LIMIT_BYTES);
  const limit: Handler = (c, next) => {
    // A file that is put into a directory (`pages/file.tsx`) may have any size.
    if (c.req.method === 'PUT') return next();
    return c.req.path === IMPORT ? limitedImport(c, next) : limited(c, next);
  };
  return [known, headers, limit, sameOrigin, formsOnly];
}

function limitedTo(maxSize: number): Handler {
  const onError = (): never => {
    throw new BerthError('body_too_large', `The form is over ${maxSize / 1024} KiB. Go back and send less at a time.`);
  };
  const counted = bodyLimit({ maxSize, onError });
  return (c, next) => {
    const length = c.req.header('content-length');
    if (length === undefined || c.req.header('transfer-encoding') !== undefined) return counted(c, next);
    // `bodyLimit` opens the body. If nobody then reads it, the adapter closes the connection, with later requests on it.
    return Number(length) > maxSize ? onError() : next();
  };
}

/** Finds the session of a request, if it has one, and counts the request. */
export function findSession({ database, clock, web }: AppContext, userLimit: RateLimit): Handler {
  return async (c, next) => {
    const token = sessionToken(c);
    const visit = c.get('visit');
    // A page that follows changes does not keep its session alive.
    const seen = c.req.header('accept') === 'text/event-stream' ? undefined : visit;
    const first = token === undefined ? undefined : await sessionOf({ database, clock }, token, seen);
    if (token === undefined || !first) {
      web.addressLimit.take(visit.address);
      return next();
    }
    c.env.notes.principal = first.principal;
    userLimit.take(first.userId);
    // A form may arrive long after its headers, so its session is read again.
    if (c.req.method === 'POST') await c.req.parseBody();
    const user = c.req.method === 'POST' ? await sessionOf({ database, clock }, token) : first;
    if (!user) return next();
    c.set('user', user);
    c.set('csrf', csrfToken(token));
    return next();
  };
}

/** Lets requests with a session pass. Others are redirected to sign in, and then return to the page that they requested. */
export const requireSession: Handler = async (c, next) => {
  const user = visitorOf(c);
  if (!user) {
    if (sessionToken(c) !== undefined) clearSession(c);
    return isByScript(c) ? signedOut(c) : c.redirect(signInFor(c), 303);
  }
  if (c.req.method === 'POST') await checkForm(c);
  const { path } = c.req;
  if (isByScript(c) && (user.awaitsCode || user.needsSecondFactor)) return signedOut(c);
  if (user.awaitsCode && !AWAITING_CODE.includes(path)) return c.redirect('/dashboard/sign-in/code', 303);
  if (user.needsSecondFactor && !user.awaitsCode && !NEEDING_FACTOR.some((own) => path.startsWith(own)))
    return c.redirect('/dashboard/profile/second-factor', 303);
  return next();
};

/** Whether our script sent the request. It would follow a redirect, and take the sign-in page for its answer. */
function isByScript(c: PageContext): boolean {
  const accepted = c.req.header('accept') ?? '';
  return c.req.method === 'PUT' || accepted === 'text/event-stream' || accepted === 'application/json';
}

const signedOut = (c: PageContext): Response =>
  c.text('Your session has ended. Reload this page to sign in, then try again.', 401);

/** The pages that are open until the code of the second factor is entered. */
const AWAITING_CODE = ['/dashboard/sign-in/code', '/dashboard/sign-out'];
/** The pages that are open while the user lacks a second factor that the account requires. */
const NEEDING_FACTOR = ['/dashboard/profile/second-factor', '/dashboard/sign-out'];

function signInFor(c: PageContext): string {
  if (c.req.path === '/dashboard') return '/dashboard/sign-in';
  const isPage = c.req.method === 'GET';
  // After signing in, return to the page with the form, not to the address that it posts to.
  const { pathname, search } = new URL(c.req.url);
  const next = isPage ? pathname + search : cameFrom(c);
  if (next === undefined) return '/dashboard/sign-in';
  return `/dashboard/sign-in?${new URLSearchParams({ next, ...(!isPage && { ended: '' }) }).toString()}`;
}

/** @throws {BerthError} `not_authorized` unless the form belongs to this session. */
async function checkForm(c: PageContext): Promise<void> {
  const { _csrf: sent } = await c.req.parseBody();
  if (!isFormOf(c, typeof sent === 'string' ? sent : ''))
    throw new BerthError(
      'not_authorized',
      'You signed in again after opening this form. Reload the page and try again.',
    );
}

/** @throws {BerthError} `not_authorized` unless the user is an admin. */
export const adminOnly: Handler = async (c, next) => {
  if (!isAdmin(c)) throw new BerthError('not_authorized', 'Only an admin of your account may do that.');
  return next();
};

/** Finds the directory of a page. @throws {BerthError} `directory_not_found`. */
export function withDirectory(context: AppContext): MiddlewareHandler<DashboardEnv, '/:id'> {
  const { database, clock } = context;
  const { reads } = database;
  return async (c, next) => {
    const directory = await liveDirectory(reads, targetOf(c, c.req.param('id')));
    requireDirectory(c.get('user').principal.scope, directory.id);
    c.set('directory', directory);
    c.set('access', await accessState(reads, directory, clock.now()));
    let status: ReturnType<typeof directoryStatus> | undefined;
    c.set('status', () => (status ??= directoryStatus(context, directory)));
    return next();
  };
}
