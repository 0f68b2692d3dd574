/** The secrets that a new directory gets. */
import { randomBytes } from 'node:crypto';
import { encrypt } from 'unixcrypt';
import { randomText } from '../random-text.ts';

const PASSWORD_ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const SALT_ALPHABET = `${PASSWORD_ALPHABET}./`;

/** 32 characters, 190 bits: easy to paste anywhere, impossible to guess. */
function generatePassword(): string {
  return randomText(PASSWORD_ALPHABET, 32);
}

/**
 * The crypt(5) SHA-512 hash that PAM checks a password against. The fewest rounds that crypt allows: stretching
 * protects passwords that can be guessed, which generated ones cannot, and every login would pay for it.
 */
function hashPassword(password: string): string {
  return encrypt(password, `$6$rounds=1000$${randomText(SALT_ALPHABET, 16)}`);
}

/** A password and the hash that stands for it. */
export interface Credential {
  readonly password: string;
  readonly hash: string;
}

export function newCredential(): Credential {
  const password = generatePassword();
  return { password, hash: hashPassword(password) };
}

/** The key of the webhook signature: 24 bytes (specification, field `webhook_secret`), base64url. */
export function generateWebhookSecret(): string {
  return randomBytes(24).toString('base64url');
}
