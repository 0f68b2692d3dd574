/** The headers of an answer with a file, and the conditions and ranges of its request (RFC 9110, sections 13 and 14). */
import type { IncomingHttpHeaders } from 'node:http';
import type { Precondition } from '../files/precondition.ts';

/** Bytes from `start` up to and without `end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * The one range that is asked for, and undefined for the whole: without a range, with several, with one that cannot be
 * read, and when `If-Range` names other bytes than these.
 * @returns 'unsatisfiable' when it is outside.
 */
export function requestedSpan(
  headers: IncomingHttpHeaders,
  size: number,
  etag: string,
): Span | 'unsatisfiable' | undefined {
  const condition = headers['if-range'];
  if (condition !== undefined && condition !== etag) return undefined;
  const [, first = '', last = ''] = /^bytes= *(\d*)-(\d*) *$/i.exec(headers.range ?? '') ?? [];
  if (first === '' && last === '') return undefined;
  if (first !== '' && last !== '' && Number(last) < Number(first)) return undefined;
  const start = first === '' ? Math.max(size - Number(last), 0) : Number(first);
  const end = first === '' || last === '' ? size : Math.min(Number(last) + 1, size);
  return start < end ? { start, end } : 'unsatisfiable';
}

/** Whether the client has these bytes already. */
export function isNoneMatch({ 'if-none-match': tags = '' }: IncomingHttpHeaders, etag: string): boolean {
  // Tags of ours hold no comma and no quote.
  return tags.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag);
}

/** What `If-Match` and `If-None-Match` ask of a change (RFC 9110, section 13.1); undefined when they ask nothing. */
export function requestedPrecondition(headers: IncomingHttpHeaders): Precondition | undefined {
  const match = headers['if-match'];
  const noneMatch = headers['if-none-match'];
  if (match === undefined && noneMatch === undefined) return undefined;
  const isAmong = (tags: string, tag: string): boolean =>
    tags.split(',').some((each) => each.trim() === '*' || each.trim() === `"${tag}"`);
  return {
    isNew: noneMatch?.trim() === '*',
    allows(tag) {
      if (match !== undefined && (tag === undefined || !isAmong(match, tag))) return false;
      return noneMatch === undefined || tag === undefined || !isAmong(noneMatch.replaceAll('W/', ''), tag);
    },
  };
}

/** `Content-Disposition` for any name: plain ASCII, and the name itself for those who read it (RFC 6266, RFC 8187). */
export function attachment(name: string): string {
  const safe = name.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029/\\]/gu, '_');
  const plain = safe.replaceAll(/[^\x20-\x7e]|["%]/gu, '_');
  const encoded = encodeURIComponent(safe).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}
