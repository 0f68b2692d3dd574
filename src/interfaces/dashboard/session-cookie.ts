/** The cookie of a session, and the completion of a sign-in, which sets it. The session's token is in no page and no log. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type { Database } from '../../foundation/db/open.ts';
import { endUserSession } from '../../rules/users/sessions.ts';
import type { Entered } from '../../rules/users/sign-in.ts';
import { type PageContext, visitorOf } from './environment.ts';

const NAME = 'berth';

/**
 * Browsers accept a `__Host-` cookie only from this host and over TLS (RFC 6265bis, section 4.1.3.2). It is `Lax`, so that it is
 * sent when an OpenID provider redirects the browser back.
 */
export const HOST_COOKIE = { prefix: 'host', path: '/', secure: true, httpOnly: true, sameSite: 'Lax' } as const;

/** 30 days, the longest that a session lasts. */
const MAX_AGE_SECONDS = 2_592_000;

export function sessionToken(c: PageContext): string | undefined {
  return getCookie(c, NAME, 'host');
}

function setSession(c: PageContext, token: string): void {
  setCookie(c, NAME, token, { ...HOST_COOKIE, maxAge: MAX_AGE_SECONDS });
}

export function clearSession(c: PageContext): void {
  deleteCookie(c, NAME, HOST_COOKIE);
}

/** The token in the session's forms. Without it, other sites and other sessions cannot post them. */
export function csrfToken(token: string): string {
  return createHash('sha256').update(`csrf ${token}`).digest('base64url');
}

/** Whether a form's token belongs to the session of the request. */
export function isFormOf(c: PageContext, token: string): boolean {
  const given = Buffer.from(token);
  const expected = Buffer.from(c.get('csrf'));
  return given.length === expected.length && timingSafeEqual(given, expected);
}

const OVERVIEW = '/dashboard';

/** Replaces a session that the browser may have had. Returns the URL to continue with. */
export async function startSession(
  c: PageContext,
  { db }: Pick<Database, 'db'>,
  { token, awaitsCode }: Entered,
  next = OVERVIEW,
): Promise<string> {
  const before = visitorOf(c);
  if (before) await endUserSession(db, before.userId, before.sessionId);
  setSession(c, token);
  return awaitsCode ? withNext('/dashboard/sign-in/code', next) : next;
}

/** The page to continue with, from `?next=`. It is always a page of the dashboard, whatever the parameter says. */
export function nextPage(c: PageContext): string {
  const url = URL.parse(c.req.query('next') ?? '', 'https://here.invalid');
  const isOurs = url?.origin === 'https://here.invalid' && /^\/dashboard(?:\/|$)/.test(url.pathname);
  return url && isOurs ? url.pathname + url.search : OVERVIEW;
}

export function withNext(path: string, next: string): string {
  return next === OVERVIEW ? path : `${path}?${new URLSearchParams({ next }).toString()}`;
}
