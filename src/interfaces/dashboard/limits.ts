/**
 * What a user who is limited to reading or to some directories reaches, as with an API key. Every page that is not named here is one
 * of the whole account. Rules check the limits again, in the transaction of a change.
 */
import type { MiddlewareHandler } from 'hono';
import { requireChanges, requireWholeAccount } from '../../rules/accounts/actor.ts';
import { DIRECTORIES } from './directories-view.ts';
import { type DashboardEnv, type PageContext, visitorOf } from './environment.ts';

/** What everybody has: the own profile, and the way in and out. */
const OWN = /^\/dashboard\/(?:profile|sign-in|sign-out)(?:\/|$)/;
/** The pages that show users only what their limits allow. Those of a directory are checked when it is found (`withDirectory`). */
const NARROWED = /^\/dashboard\/(?:find|deliveries|activity)(?:\/|$)|^\/dashboard\/directories\/(?!(?:new|import)$)/;
/** A form that only reads: it downloads files. */
const READING = /\/files\/selected$/;

/** @throws {BerthError} `not_authorized`. */
export const withinLimits: MiddlewareHandler<DashboardEnv> = async (c, next) => {
  const { scope } = c.get('user').principal;
  const { path, method } = c.req;
  const isRead = method === 'GET' || method === 'HEAD';
  // A file that is put may have any name.
  if (!isRead && !(method === 'POST' && isReading(path))) requireChanges(scope);
  if (isRead && path === '/dashboard' && scope.directories) return c.redirect(DIRECTORIES, 303);
  const isNarrowed = OWN.test(path) || NARROWED.test(path) || (isRead && path === DIRECTORIES);
  if (!isNarrowed) requireWholeAccount(scope);
  return next();
};

/** Whether those who may only read can send forms to that path. */
const isReading = (path: string): boolean => OWN.test(path) || READING.test(path);

/** Whether the user may send forms to that path. Nobody who is not signed in has limits. */
export function maySend(c: PageContext, action = c.req.path): boolean {
  const isReadOnly = visitorOf(c)?.principal.scope.isReadOnly ?? false;
  return !isReadOnly || isReading(action.split('?', 1)[0] ?? '');
}

/** Tells others than admins who can. Those who may only read are told that at the top of each page. */
export const onlyAdmins = (c: PageContext, what: string): string | undefined =>
  maySend(c, '/') ? `Only admins can ${what}.` : undefined;
