/** Random text from the system, and the hashes that several parts store or show. */
import { hash, randomInt } from 'node:crypto';

/** The stored form of a key or a token. They are random, so a plain SHA-256 is enough: nobody can guess what is behind it. */
export function hashToken(token: string): string {
  return hash('sha256', token, 'hex');
}

/** The fingerprint of an SSH key: `SHA256:` and base64 without padding, as `ssh-keygen -l` prints it. */
export function keyFingerprint(blob: Buffer): string {
  return `SHA256:${hash('sha256', blob, 'base64').replace(/=+$/, '')}`;
}

/** `length` characters, each drawn evenly from `alphabet`. */
export function randomText(alphabet: string, length: number): string {
  return Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join('');
}
