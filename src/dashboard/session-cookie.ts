/** The cookie of a session, and what is derived from it. Its token is in no page and in no log. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type { PageContext } from './environment.ts';

const NAME = 'berth';

/**
 * Browsers take a `__Host-` cookie from this host alone, over TLS (RFC 6265bis, section 4.1.3.2). `Lax`, so that it comes along
 * when an OpenID provider sends the browser back.
 */
export const HOST_COOKIE = { prefix: 'host', path: '/', secure: true, httpOnly: true, sameSite: 'Lax' } as const;

/** 30 days: sessions end sooner. */
const MAX_AGE_SECONDS = 2_592_000;

export function sessionToken(c: PageContext): string | undefined {
  return getCookie(c, NAME, 'host');
}

export function setSession(c: PageContext, token: string): void {
  setCookie(c, NAME, token, { ...HOST_COOKIE, maxAge: MAX_AGE_SECONDS });
}

export function clearSession(c: PageContext): void {
  deleteCookie(c, NAME, HOST_COOKIE);
}

/** The token in that session's forms, without which no other site and no other session can post them. */
export function csrfToken(token: string): string {
  return createHash('sha256').update(`csrf ${token}`).digest('base64url');
}

/** Whether a request comes from a page of its session: each form of that session carries the token. */
export function isFormOf(c: PageContext, token: string): boolean {
  const given = Buffer.from(token);
  const expected = Buffer.from(c.get('csrf'));
  return given.length === expected.length && timingSafeEqual(given, expected);
}
