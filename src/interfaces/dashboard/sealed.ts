/** Encrypts text that a browser keeps for the server, so that nobody can read or change it. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import type { PageContext } from './environment.ts';
import { sessionToken } from './session-cookie.ts';

const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

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
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(CIPHER, key, iv);
  const bytes = Buffer.concat([cipher.update(text), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), bytes]).toString('base64url');
}

export function unseal(key: Buffer, value: string): string | undefined {
  const bytes = Buffer.from(value, 'base64url');
  if (bytes.length <= IV_BYTES + TAG_BYTES) return undefined;
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, IV_BYTES));
  decipher.setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]).toString();
  } catch {
    return undefined;
  }
}

function keyOf(c: PageContext, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', sessionToken(c) ?? '', '', purpose, 32));
}
