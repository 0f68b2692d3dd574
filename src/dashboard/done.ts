/**
 * What was done just before, across the redirect that follows a form: a word in the address, and the same word in a cookie
 * that the next page takes away. A link that somebody made up, or a page that is loaded again, therefore claims nothing.
 */
import type { MiddlewareHandler } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type { DashboardEnv, PageContext } from './environment.ts';
import { HOST_COOKIE } from './session-cookie.ts';

const NAME = 'berth-done';
/** In seconds: the redirect is followed at once. */
const LIFE = 60;

/** Notes the word of every redirect that follows a form. */
export const noteDone: MiddlewareHandler<DashboardEnv> = async (c, next) => {
  await next();
  if (c.req.method !== 'POST' || c.res.status !== 303) return;
  const word = URL.parse(c.res.headers.get('location') ?? '', 'https://here.invalid')?.searchParams.get('done');
  if (word !== null && word !== undefined) setCookie(c, NAME, word, { ...HOST_COOKIE, maxAge: LIFE });
};

/** The word for what was done, once; empty when nothing was. */
export function takeDone(c: PageContext): string {
  const word = c.req.query('done') ?? '';
  if (word === '' || getCookie(c, NAME, 'host') !== word) return '';
  deleteCookie(c, NAME, HOST_COOKIE);
  return word;
}
