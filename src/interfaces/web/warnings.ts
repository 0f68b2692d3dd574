/**
 * Reports the parts of a request that have no effect in a `Warning` header (RFC 7234, section 5.5), since the specification
 * fixes status and body.
 */
import { isIP } from 'node:net';
import type { Fields } from '../../rules/directories/fields.ts';
import type { ShownDirectory } from '../../rules/directories/view.ts';

/** How many names one warning shows. */
const SHOWN = 10;
/** Names are the client's text, and not every text may be in a header. */
const PLAIN = /^[\w.-]{1,40}$/;

/** Whether webhooks may go to that IP address. */
export type MayReach = (address: string) => boolean;

/** The header with these texts. Undefined texts are left out; without any text, there is no header. */
export function warning(...texts: readonly (string | undefined)[]): Record<string, string> {
  const values = texts.filter((text) => text !== undefined).map((text) => `299 - "${text}"`);
  return values.length > 0 ? { warning: values.join(', ') } : {};
}

/** The fields that this request cannot set, and names from `beside` the fields. */
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
  return auth_mode === 'public_key'
    ? 'auth_mode is public_key: the password is not used until the mode allows it'
    : undefined;
}

export function keyUnused({ auth_mode }: Pick<ShownDirectory, 'auth_mode'>): string | undefined {
  return auth_mode === 'password' ? 'auth_mode is password: keys are not used until the mode allows them' : undefined;
}

/** Only for URLs with an IP address. The addresses of a name are known only when a webhook is sent. */
export function unreachable({ webhook_url: url }: Fields, mayReach: MayReach): string | undefined {
  const host = typeof url === 'string' ? (URL.parse(url)?.hostname.replace(/^\[|\]$/g, '') ?? '') : '';
  return isIP(host) > 0 && !mayReach(host)
    ? `webhooks to ${host} will be refused: it is not a public address`
    : undefined;
}
