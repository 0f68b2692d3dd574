/**
 * What derives from a directory's name: its slug and its SFTP username. The specification leaves the rules open;
 * they are settled in the design and must not change, since neither ever changes for a directory.
 */
import slugify from '@sindresorhus/slugify';
import { randomText } from '../random-text.ts';

/** Of the slug, in the username: with the prefix, dash and suffix it stays within the 32 that user names may have. */
const STEM_LENGTH = 23;
const SUFFIX_LENGTH = 8;
const SUFFIX_ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789';

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
