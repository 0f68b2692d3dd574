/**
 * Carries what the next page has to show across the redirect after a form: the confirmation of the action, and a secret that
 * is shown once. Both are in a cookie, which that page removes. So reloading it confirms and creates nothing again, and the
 * server keeps nothing.
 */
import { createHash } from 'node:crypto';
import type { MiddlewareHandler } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type { DashboardEnv, PageContext } from './environment.ts';
import { HOST_COOKIE } from './session-cookie.ts';
import { sealed, unsealed } from './sealed.ts';

const DONE = 'berth-done';
/** Short, since browsers follow the redirect at once. */
const MAX_AGE_SECONDS = 60;

/**
 * Puts the name of the action into the cookie too, with every redirect that follows a form. So a forged link, which has the name
 * only in its URL, confirms nothing.
 */
export const noteDone: MiddlewareHandler<DashboardEnv> = async (c, next) => {
  await next();
  if (c.req.method !== 'POST' || c.res.status !== 303) return;
  const name = URL.parse(c.res.headers.get('location') ?? '', 'https://here.invalid')?.searchParams.get('done');
  if (name !== null && name !== undefined) setCookie(c, DONE, name, { ...HOST_COOKIE, maxAge: MAX_AGE_SECONDS });
};

/** Takes the name of the last action. Empty when there was none. */
export function takeDone(c: PageContext): string {
  const name = c.req.query('done') ?? '';
  if (name === '' || getCookie(c, DONE, 'host') !== name) return '';
  deleteCookie(c, DONE, HOST_COOKIE);
  return name;
}

/** The names in `data-secret`. */
export type SecretKind = 'api-key' | 'sftp-password' | 'webhook-secret' | 'recovery-codes' | 'link';

export interface ShownOnce {
  readonly kind: SecretKind;
  readonly value: string;
  /** The path of the only page that shows it. */
  readonly page: string;
}

const SECRET = 'berth-once';

/** Each page has a cookie, so that a form in another tab does not replace the secret. */
const cookieOf = (page: string): string => `${SECRET}-${createHash('sha256').update(page).digest('hex').slice(0, 16)}`;

export function showOnce(c: PageContext, secret: ShownOnce): void {
  const text = sealed(c, SECRET, JSON.stringify(secret));
  setCookie(c, cookieOf(secret.page), text, { ...HOST_COOKIE, maxAge: MAX_AGE_SECONDS });
}

/** Takes the secret for this page, if there is one. */
export function takeShownOnce(c: PageContext): ShownOnce | undefined {
  const cookie = cookieOf(c.req.path);
  const text = unsealed(c, SECRET, getCookie(c, cookie, 'host') ?? '');
  if (text === undefined) return undefined;
  const secret = JSON.parse(text) as ShownOnce;
  if (secret.page !== c.req.path) return undefined;
  deleteCookie(c, cookie, HOST_COOKIE);
  return secret;
}
