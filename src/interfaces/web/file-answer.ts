/** Streams an upload's file as the response, whole or a range of it, and never any other bytes. */
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { HttpBindings } from '@hono/node-server';
import type { Content, Precondition } from '../../arrivals/files/content.ts';
import { displayName, type RecordedUpload } from '../../arrivals/uploads/upload-list.ts';
import { refusal } from './responses.ts';

/** @param begin resolves when the file may be sent. Each file that is being sent holds a descriptor. */
export async function fileAnswer(
  { incoming, outgoing }: HttpBindings,
  { upload, content }: { upload: RecordedUpload; content: Content },
  begin: () => Promise<void>,
): Promise<Response> {
  const { size, tag } = content;
  const etag = `"${tag}"`;
  const headers = { etag, 'cache-control': 'private, no-cache', 'accept-ranges': 'bytes' };
  if (isNoneMatch(incoming.headers, etag)) return new Response(null, { status: 304, headers });
  const isHead = incoming.method === 'HEAD';
  const span = isHead ? undefined : requestedSpan(incoming.headers, size, etag);
  if (span === 'unsatisfiable')
    return refusal(416, 'Range not satisfiable', { ...headers, 'content-range': `bytes */${size}` });
  const { start, end } = span ?? { start: 0, end: size };
  if (!isHead) await begin();
  return new Response(isHead ? null : ReadableStream.from(bytes(content, { start, end }, outgoing)), {
    status: span ? 206 : 200,
    headers: {
      ...headers,
      'content-type': 'application/octet-stream',
      'content-length': String(end - start),
      'content-disposition': attachment(displayName(upload.path).replace(/^.*\//s, '')),
      'x-content-type-options': 'nosniff',
      ...(span && { 'content-range': `bytes ${start}-${end - 1}/${size}` }),
    },
  });
}

/** Ends the connection if the file changes meanwhile, so that the client sees that the response is incomplete. */
async function* bytes(content: Content, { start, end }: Span, answer: ServerResponse): AsyncGenerator<Buffer> {
  try {
    yield* content.read(start, end);
  } catch {
    answer.destroy();
  }
}

/** The bytes from `start` to before `end`. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * The requested range. Undefined means the whole file: there is no range, several, or one that cannot be parsed, or `If-Range`
 * names another version of the file.
 * @returns 'unsatisfiable' when the range is outside of the file.
 */
function requestedSpan(headers: IncomingHttpHeaders, size: number, etag: string): Span | 'unsatisfiable' | undefined {
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
function isNoneMatch({ 'if-none-match': tags = '' }: IncomingHttpHeaders, etag: string): boolean {
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
function attachment(name: string): string {
  const safe = name.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029/\\]/gu, '_');
  const plain = safe.replaceAll(/[^\x20-\x7e]|["%]/gu, '_');
  const encoded = encodeURIComponent(safe).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}
