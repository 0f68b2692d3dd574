/** Encrypts text that a browser keeps for the server, so that nobody can read or change it. */
import { hkdfSync } from 'node:crypto';
import { decrypt, encrypt } from '../../foundation/base/encrypt.ts';
import type { PageContext } from './environment.ts';
import { sessionToken } from './session-cookie.ts';

/** Encrypts with the session's token. A text that was sealed for one `purpose` cannot be opened for another. */
export function sealed(c: PageContext, purpose: string, text: string): string {
  return seal(keyOf(c, purpose), text);
}

/** Undefined for a text that was sealed for another session or purpose, or not at all. */
export function unsealed(c: PageContext, purpose: string, value: string): string | undefined {
  return unseal(keyOf(c, purpose), value);
}

/** Encrypts without a session. @param key 32 bytes. */
export function seal(key: Buffer, text: string): string {
  return encrypt(key, text).toString('base64url');
}

export function unseal(key: Buffer, value: string): string | undefined {
  try {
    return decrypt(key, Buffer.from(value, 'base64url'));
  } catch {
    return undefined;
  }
}

function keyOf(c: PageContext, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', sessionToken(c) ?? '', '', purpose, 32));
}
