/**
 * Secrets that are shown once, across the redirect that follows their making: encrypted in a cookie of their own, which the
 * next page takes away. So nothing is made twice when that page is loaded again, and nothing is kept here.
 */
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type { PageContext } from './environment.ts';
import { sealed, unsealed } from './sealed.ts';
import { HOST_COOKIE } from './session-cookie.ts';

/** The names in `data-secret`. */
export type SecretKind = 'api-key' | 'sftp-password' | 'webhook-secret' | 'recovery-codes' | 'link';

export interface ShownOnce {
  readonly kind: SecretKind;
  readonly value: string;
  /** The path of the page that shows it, and no other does. */
  readonly page: string;
}

const NAME = 'berth-once';
/** In seconds: the redirect is followed at once. */
const MAX_AGE_SECONDS = 60;

export function showOnce(c: PageContext, secret: ShownOnce): void {
  setCookie(c, NAME, sealed(c, NAME, JSON.stringify(secret)), { ...HOST_COOKIE, maxAge: MAX_AGE_SECONDS });
}

/** The secret for this page, if there is one: from now on there is none. */
export function takeShownOnce(c: PageContext): ShownOnce | undefined {
  const text = unsealed(c, NAME, getCookie(c, NAME, 'host') ?? '');
  if (text === undefined) return undefined;
  const secret = JSON.parse(text) as ShownOnce;
  if (secret.page !== c.req.path) return undefined;
  deleteCookie(c, NAME, HOST_COOKIE);
  return secret;
}
