/**
 * The format of API keys: `svc_live_` or `svc_test_` (specification, "Authentication" 3), 32 random base62 characters, and 6
 * base62 characters of checksum, so that a mistyped key is refused without a query.
 */
import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { randomText } from '../../foundation/base/random-text.ts';

export type Environment = 'live' | 'test';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const BODY_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
const FORMAT = new RegExp(`^svc_(live|test)_([0-9A-Za-z]{${BODY_LENGTH}})([0-9A-Za-z]{${CHECKSUM_LENGTH}})$`);

/** A new key with 190 bits of entropy. */
export function generateKey(environment: Environment): string {
  const body = randomText(ALPHABET, BODY_LENGTH);
  return `svc_${environment}_${body}${checksum(body)}`;
}

/** Whether the text is a key of that environment without a typing error. Says nothing about whether it was issued. */
export function isWellFormedKey(text: string, environment: Environment): boolean {
  const [, prefix, body = '', sum] = FORMAT.exec(text) ?? [];
  return prefix === environment && sum === checksum(body);
}

/** The stored form of a key. Keys are random, so a plain SHA-256 is enough: nobody can guess the key behind it. */
export function hashKey(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}

/** CRC-32 of the body in base62. */
function checksum(body: string): string {
  let value = crc32(body);
  let text = '';
  for (let i = 0; i < CHECKSUM_LENGTH; i += 1) {
    text = (ALPHABET[value % ALPHABET.length] ?? '') + text;
    value = Math.floor(value / ALPHABET.length);
  }
  return text;
}
