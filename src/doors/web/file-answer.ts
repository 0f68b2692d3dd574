/** Streams an upload's file as the response, whole or a range of it, and never any other bytes. */
import type { ServerResponse } from 'node:http';
import type { HttpBindings } from '@hono/node-server';
import type { Content } from '../../arrivals/files/content.ts';
import { displayName, type RecordedUpload } from '../../arrivals/uploads/upload-list.ts';
import { attachment, isNoneMatch, requestedSpan, type Span } from './content-headers.ts';
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
