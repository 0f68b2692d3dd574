/**
 * The URL of a link: `/links/TOKEN/NAME` for a file, and `/links/TOKEN/` for a folder. The token alone gives access; the
 * database has only its hash. The name is the file's, without the folders above it, which its holder need not know.
 */
import { randomBytes } from 'node:crypto';
import type { FilePath } from '../uploads/file-path.ts';

/** 192 random bits. */
export function newToken(): string {
  return randomBytes(24).toString('base64url');
}

export const TOKEN = /^[\w-]{32}$/;

/** @param name empty for a folder. */
export function linkTarget(token: string, name: FilePath): string {
  return `/links/${token}/${encoded(name)}`;
}

/** Percent-encodes a path for a URL. Each of its characters is a byte. */
export function encoded(path: FilePath): string {
  return path.replaceAll(/[^\w.~/-]/g, percent);
}

function percent(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
}
