/**
 * The claims of a link. They are stored only in its URL, which also has a signature over all of them, made with the
 * directory's link secret. If a character is changed, the signature does not match.
 */
import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { type Micros, SECOND } from '../base/clock.ts';
import type { FilePath } from '../uploads/file-path.ts';

export interface Claims {
  readonly kind: 'download' | 'upload';
  readonly directoryId: string;
  readonly path: FilePath;
  /** In whole seconds. */
  readonly expiresAt: Micros;
  readonly once: boolean;
  /** The largest upload, in bytes; undefined for a download. */
  readonly maxBytes: number | undefined;
  /** Random, so that two links with the same claims differ. */
  readonly nonce: string;
}

export interface Link extends Claims {
  readonly signature: string;
}

export function newSecret(): string {
  return randomBytes(32).toString('base64url');
}

export function newNonce(): string {
  return randomBytes(9).toString('base64url');
}

function signatureOf(secret: string, claims: Claims): Buffer {
  const { kind, directoryId, path, expiresAt, once, maxBytes = null, nonce } = claims;
  // In JSON the fields stay apart, whatever characters a path has.
  const text = JSON.stringify(['berth link 1', kind, directoryId, path, maxBytes, expiresAt, once, nonce]);
  return createHmac('sha256', secret).update(text).digest();
}

export function isSigned(secret: string, { signature, ...claims }: Link): boolean {
  const given = Buffer.from(signature, 'base64url');
  const expected = signatureOf(secret, claims);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

/** Identifies a link in the database, which must not contain its signature. */
export function digestOf(secret: string, claims: Claims): string {
  return hash('sha256', signatureOf(secret, claims), 'hex');
}

/** Path and query of the URL. */
export function targetOf(secret: string, claims: Claims): string {
  const { kind, directoryId, path, expiresAt, once, maxBytes, nonce } = claims;
  const query = new URLSearchParams({
    for: kind,
    ...(maxBytes !== undefined && { max_bytes: String(maxBytes) }),
    expires: String(expiresAt / SECOND),
    ...(once && { once: '1' }),
    nonce,
    signature: signatureOf(secret, claims).toString('base64url'),
  });
  return `/links/${directoryId}/${encoded(path)}?${query.toString()}`;
}

/** Percent-encodes a path for a URL. Each of its characters is a byte. */
export function encoded(path: FilePath): string {
  return path.replaceAll(/[^\w.~/-]/g, percent);
}

function percent(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
}

/** Reads a link from a request's path and query; undefined when they are not in the form of a link. */
export function linkIn(directoryId: string, path: FilePath, query: URLSearchParams): Link | undefined {
  // No name may be repeated, since readers could disagree about which value counts.
  const fields = Object.fromEntries(query);
  if (Object.keys(fields).length !== query.size) return undefined;
  const { for: kind, max_bytes: most, expires = '', once, nonce = '', signature = '', ...others } = fields;
  const isNumber = (text: string): boolean => /^(?:0|[1-9]\d{0,14})$/.test(text);
  if (Object.keys(others).length > 0 || (kind !== 'download' && kind !== 'upload')) return undefined;
  if ((kind === 'upload') !== (most !== undefined) || (most !== undefined && !isNumber(most))) return undefined;
  if (!/^\d{1,10}$/.test(expires) || (once !== undefined && once !== '1')) return undefined;
  if (!/^[\w-]{12}$/.test(nonce) || !/^[\w-]{43}$/.test(signature)) return undefined;
  const maxBytes = most === undefined ? undefined : Number(most);
  const expiresAt = Number(expires) * SECOND;
  return { kind, directoryId, path, expiresAt, once: once === '1', maxBytes, nonce, signature };
}
