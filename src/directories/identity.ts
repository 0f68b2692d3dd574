/**
 * Generates a new directory's slug and SFTP username from its name, its password and its webhook secret. The specification
 * leaves the first two open; the design defines them, and neither ever changes for a directory.
 */
import { randomBytes } from 'node:crypto';
import slugify from '@sindresorhus/slugify';
import { encrypt } from 'unixcrypt';
import { randomText } from '../base/random-text.ts';

/** How much of the slug is in the username: with the prefix, dash and suffix it stays within 32 characters. */
const STEM_LENGTH = 23;
const SUFFIX_LENGTH = 8;
const SUFFIX_ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789';

const PASSWORD_ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const SALT_ALPHABET = `${PASSWORD_ALPHABET}./`;

/** Lowercase ASCII words joined by dashes; `directory` when the name leaves nothing. */
export function slugOf(name: string): string {
  // A capital inside a word does not begin another: "Acme GmbH" is acme-gmbh.
  return slugify(name, { decamelize: false }) || 'directory';
}

/** At most 32 of `[a-z0-9-]`, starting with a letter as user names must, ending in 8 random characters. */
export function generateUsername(slug: string): string {
  const named = /^[a-z]/.test(slug) ? slug : `d-${slug}`;
  const stem = named.slice(0, STEM_LENGTH).replace(/-+$/, '');
  return `${stem}-${randomText(SUFFIX_ALPHABET, SUFFIX_LENGTH)}`;
}

/**
 * A password of 32 characters, 190 bits, and the crypt(5) SHA-512 hash that PAM checks it against. The fewest rounds that
 * crypt allows: stretching protects passwords that can be guessed, and every login would pay for it.
 */
export function generatePassword(): { readonly password: string; readonly hash: string } {
  const password = randomText(PASSWORD_ALPHABET, 32);
  return { password, hash: encrypt(password, `$6$rounds=1000$${randomText(SALT_ALPHABET, 16)}`) };
}

/** The key of the webhook signature: 24 bytes (specification, field `webhook_secret`) in the base64 that Standard Webhooks takes. */
export function generateWebhookSecret(): string {
  return randomBytes(24).toString('base64');
}
