/**
 * Carries the confirmation of an action across the redirect that follows a form: a name in the address, and the same name in
 * a cookie that the next page removes. So a forged link, or a page that is reloaded, confirms nothing.
 */
import type { MiddlewareHandler } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type { DashboardEnv, PageContext } from './environment.ts';
import { HOST_COOKIE } from './session-cookie.ts';

const NAME = 'berth-done';
/** In seconds: the redirect is followed at once. */
const MAX_AGE_SECONDS = 60;

/** Sets the cookie with every redirect that follows a form. */
export const noteDone: MiddlewareHandler<DashboardEnv> = async (c, next) => {
  await next();
  if (c.req.method !== 'POST' || c.res.status !== 303) return;
  const word = URL.parse(c.res.headers.get('location') ?? '', 'https://here.invalid')?.searchParams.get('done');
  if (word !== null && word !== undefined) setCookie(c, NAME, word, { ...HOST_COOKIE, maxAge: MAX_AGE_SECONDS });
};

/** The name of the last action, once; empty when there was none. */
export function takeDone(c: PageContext): string {
  const word = c.req.query('done') ?? '';
  if (word === '' || getCookie(c, NAME, 'host') !== word) return '';
  deleteCookie(c, NAME, HOST_COOKIE);
  return word;
}
