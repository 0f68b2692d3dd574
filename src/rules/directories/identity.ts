/**
 * Derives a new directory's slug and SFTP username from its name, and generates its password and webhook secret. The
 * specification leaves slug and username open; docs/limits.md defines them. They never change for a directory.
 */
import { randomBytes } from 'node:crypto';
import { encrypt } from 'unixcrypt';
import { randomText } from '../../foundation/base/hashes.ts';

import slugify from '@sindresorhus/slugify';

/** How many characters of the slug the username has. With dash and suffix it stays within 32 characters. */
const STEM_LENGTH = 23;
const SUFFIX_LENGTH = 8;
const SUFFIX_ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789';

const PASSWORD_ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const SALT_ALPHABET = `${PASSWORD_ALPHABET}./`;

/** Lowercase ASCII words joined by dashes; `directory` when the name has none. */
export function slugOf(name: string): string {
  // A capital inside a word does not begin another: "Acme GmbH" is acme-gmbh.
  return slugify(name, { decamelize: false }) || 'directory';
}

/** At most 32 characters of `[a-z0-9-]`: the first is a letter, as in every user name, and the last 8 are random. */
export function generateUsername(slug: string): string {
  const named = /^[a-z]/.test(slug) ? slug : `d-${slug}`;
  const stem = named.slice(0, STEM_LENGTH).replace(/-+$/, '');
  return `${stem}-${randomText(SUFFIX_ALPHABET, SUFFIX_LENGTH)}`;
}

/**
 * A password of 32 characters (190 bits) and its crypt(5) SHA-512 hash, which PAM checks. The hash has the fewest rounds
 * that crypt allows: more would protect only passwords that can be guessed, and slow down every login.
 */
export function generatePassword(): { readonly password: string; readonly hash: string } {
  const password = randomText(PASSWORD_ALPHABET, 32);
  return { password, hash: encrypt(password, `$6$rounds=1000$${randomText(SALT_ALPHABET, 16)}`) };
}

/** The key for webhook signatures: 24 bytes (specification, field `webhook_secret`) in base64, as Standard Webhooks expects. */
export function generateWebhookSecret(): string {
  return randomBytes(24).toString('base64');
}
