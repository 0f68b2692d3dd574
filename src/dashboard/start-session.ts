/** Completes a sign-in: sets the cookie, and leads to the page that was wanted. */
import type { Database } from '../db/open.ts';
import { endUserSession } from '../users/sessions.ts';
import type { Entered } from '../users/sign-in.ts';
import { type PageContext, visitorOf } from './environment.ts';
import { setSession } from './session-cookie.ts';

const OVERVIEW = '/dashboard';

/** The new session takes the place of one that the browser may have had. Returns where to go on. */
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

/** The page to go on to, as `?next=` names it: one of the dashboard's, whatever somebody has written there. */
export function nextPage(c: PageContext): string {
  const url = URL.parse(c.req.query('next') ?? '', 'https://here.invalid');
  const isOurs = url?.origin === 'https://here.invalid' && /^\/dashboard(?:\/|$)/.test(url.pathname);
  return url && isOurs ? url.pathname + url.search : OVERVIEW;
}

export function withNext(path: string, next: string): string {
  return next === OVERVIEW ? path : `${path}?${new URLSearchParams({ next }).toString()}`;
}
