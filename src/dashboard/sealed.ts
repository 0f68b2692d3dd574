/** Text that a browser carries for the server and nobody else can read or change. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import type { PageContext } from './environment.ts';
import { sessionToken } from './session-cookie.ts';

const CIPHER = 'aes-256-gcm';
const IV = 12;
const TAG = 16;

/** Encrypted by the session's token. `purpose`: what was sealed for one is opened for no other. */
export function sealed(c: PageContext, purpose: string, text: string): string {
  return seal(keyOf(c, purpose), text);
}

/** Undefined for what was sealed for another session, or not at all. */
export function unsealed(c: PageContext, purpose: string, value: string): string | undefined {
  return unseal(keyOf(c, purpose), value);
}

/** Without a session. @param key 32 bytes. */
export function seal(key: Buffer, text: string): string {
  const iv = randomBytes(IV);
  const cipher = createCipheriv(CIPHER, key, iv);
  const bytes = Buffer.concat([cipher.update(text), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), bytes]).toString('base64url');
}

export function unseal(key: Buffer, value: string): string | undefined {
  const bytes = Buffer.from(value, 'base64url');
  if (bytes.length <= IV + TAG) return undefined;
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, IV));
  decipher.setAuthTag(bytes.subarray(IV, IV + TAG));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(IV + TAG)), decipher.final()]).toString();
  } catch {
    return undefined;
  }
}

function keyOf(c: PageContext, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', sessionToken(c) ?? '', '', purpose, 32));
}
