/**
 * Names the parts of a request that have no effect, in a `Warning` header (RFC 7234, section 5.5), since the specification
 * fixes status and body.
 */
import { isIP } from 'node:net';
import type { Fields } from '../directories/fields.ts';
import type { ShownDirectory } from '../directories/view.ts';

/** Names shown in one warning. */
const SHOWN = 10;
/** Names are the client's own text, and a header is no place for any. */
const PLAIN = /^[\w.-]{1,40}$/;

/** Whether webhooks may go to that IP address. */
export type MayReach = (address: string) => boolean;

/** The header for these texts, of which the undefined ones are left out; none without a text. */
export function warning(...texts: readonly (string | undefined)[]): Record<string, string> {
  const values = texts.filter((text) => text !== undefined).map((text) => `299 - "${text}"`);
  return values.length > 0 ? { warning: values.join(', ') } : {};
}

/** Fields that a request does not set, which can set others, and what stands beside them. */
export function notApplied(settable: readonly string[], fields: Fields, beside: readonly string[]): string | undefined {
  const names = [...Object.keys(fields).filter((name) => !settable.includes(name)), ...beside];
  if (names.length === 0) return undefined;
  const shown = names.slice(0, SHOWN).map((name) => (PLAIN.test(name) ? name : '(a name that is not shown)'));
  const more = names.length > SHOWN ? ` and ${names.length - SHOWN} more` : '';
  return `not applied by this request: ${shown.join(', ')}${more}`;
}

export function lockedOut({
  auth_mode,
  public_key_fingerprint,
}: Pick<ShownDirectory, 'auth_mode' | 'public_key_fingerprint'>): string | undefined {
  if (auth_mode !== 'public_key' || public_key_fingerprint !== null) return undefined;
  return 'auth_mode is public_key and no public_key is stored: nobody can log in';
}

export function passwordUnused({ auth_mode }: Pick<ShownDirectory, 'auth_mode'>): string | undefined {
  return auth_mode === 'public_key' ? 'auth_mode is public_key: the password is kept for another mode' : undefined;
}

export function keyUnused({ auth_mode }: Pick<ShownDirectory, 'auth_mode'>): string | undefined {
  return auth_mode === 'password' ? 'auth_mode is password: no key lets in until the mode changes' : undefined;
}

/** A name's addresses are known when a webhook is sent; a literal's now. */
export function unreachable({ webhook_url: url }: Fields, mayReach: MayReach): string | undefined {
  const host = typeof url === 'string' ? (URL.parse(url)?.hostname.replace(/^\[|\]$/g, '') ?? '') : '';
  return isIP(host) > 0 && !mayReach(host)
    ? `webhooks to ${host} will be refused: it is not a public address`
    : undefined;
}
