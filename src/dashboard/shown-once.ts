/**
 * Secrets that are shown once, across the redirect that follows their making: encrypted in a cookie of their own, which the
 * next page takes away. So nothing is made twice when that page is loaded again, and nothing is kept here.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type { PageContext } from './environment.ts';
import { sessionToken } from './session-cookie.ts';

/** The names in `data-secret`. */
export type SecretKind = 'api-key' | 'sftp-password' | 'webhook-secret' | 'recovery-codes' | 'link';

export interface ShownOnce {
  readonly kind: SecretKind;
  readonly value: string;
  /** The path of the page that shows it, and no other does. */
  readonly page: string;
}

const NAME = 'berth-once';
const OPTIONS = { prefix: 'host', path: '/', secure: true, httpOnly: true, sameSite: 'Lax' } as const;
const CIPHER = 'aes-256-gcm';
const [IV, TAG] = [12, 16];
/** In seconds: the redirect is followed at once. */
const LIFE = 60;

export function showOnce(c: PageContext, secret: ShownOnce): void {
  const iv = randomBytes(IV);
  const cipher = createCipheriv(CIPHER, keyOf(c), iv);
  const text = Buffer.concat([cipher.update(JSON.stringify(secret)), cipher.final()]);
  const value = Buffer.concat([iv, cipher.getAuthTag(), text]).toString('base64url');
  setCookie(c, NAME, value, { ...OPTIONS, maxAge: LIFE });
}

/** The secret for this page, if there is one: from now on there is none. */
export function takeShownOnce(c: PageContext): ShownOnce | undefined {
  const bytes = Buffer.from(getCookie(c, NAME, 'host') ?? '', 'base64url');
  if (bytes.length <= IV + TAG) return undefined;
  try {
    const decipher = createDecipheriv(CIPHER, keyOf(c), bytes.subarray(0, IV));
    decipher.setAuthTag(bytes.subarray(IV, IV + TAG));
    const text = Buffer.concat([decipher.update(bytes.subarray(IV + TAG)), decipher.final()]);
    const secret = JSON.parse(text.toString()) as ShownOnce;
    if (secret.page !== c.req.path) return undefined;
    deleteCookie(c, NAME, OPTIONS);
    return secret;
  } catch {
    return undefined; // another session's
  }
}

/** Derived from the session's token, which is in its own cookie alone. */
function keyOf(c: PageContext): Buffer {
  return Buffer.from(hkdfSync('sha256', sessionToken(c) ?? '', '', NAME, 32));
}
