/** The headers of a response with a file, and the conditions and ranges of its request (RFC 9110, sections 13 and 14). */
import type { IncomingHttpHeaders } from 'node:http';
import type { Precondition } from '../../arrivals/files/content.ts';

/** The bytes from `start` to before `end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * The requested range. Undefined means the whole file: there is no range, several, or one that cannot be parsed, or `If-Range`
 * names another version of the file.
 * @returns 'unsatisfiable' when the range is outside of the file.
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

/** Whether the client already has this version of the file. */
export function isNoneMatch({ 'if-none-match': tags = '' }: IncomingHttpHeaders, etag: string): boolean {
  // Our tags have no commas and no quotes.
  return tags.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag);
}

/** The condition in `If-Match` and `If-None-Match` (RFC 9110, section 13.1); undefined without these headers. */
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

/** `Content-Disposition` for any name: an ASCII fallback, and the name itself (RFC 6266, RFC 8187). */
export function attachment(name: string): string {
  const safe = name.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029/\\]/gu, '_');
  const plain = safe.replaceAll(/[^\x20-\x7e]|["%]/gu, '_');
  const encoded = encodeURIComponent(safe).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}
