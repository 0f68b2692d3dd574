/** The files themselves: what was uploaded goes out. */
import type { ServerResponse } from 'node:http';
import type { DirectoryQueries } from '../../directories/view.ts';
import type { Content } from '../../uploads/content.ts';
import type { DirectoryFiles } from '../../uploads/directory-files.ts';
import { displayName } from '../../uploads/upload-list.ts';
import type { Endpoint } from '../access.ts';
import { attachment, isNoneMatch, requestedSpan, type Span } from '../content-headers.ts';
import { ownDirectory } from '../own-directory.ts';
import { refusal } from '../responses.ts';
import { type Route, route } from '../route.ts';
import type { Turn } from '../turns.ts';

export function fileRoutes(directories: DirectoryQueries, files: DirectoryFiles, turn: Turn): Route[] {
  const content: Endpoint<'/:id/:upload_id'> = async (c, principal) => {
    const { incoming, outgoing } = c.env;
    const directory = await ownDirectory(directories, principal, c.req.param('id'));
    const found = await files.content(directory, c.req.param('upload_id'));
    const { size, tag } = found.content;
    const etag = `"${tag}"`;
    const headers = { etag, 'cache-control': 'private, no-cache', 'accept-ranges': 'bytes' };
    if (isNoneMatch(incoming.headers, etag)) return c.body(null, 304, headers);
    const isHead = incoming.method === 'HEAD';
    const span = isHead ? undefined : requestedSpan(incoming.headers, size, etag);
    if (span === 'unsatisfiable')
      return refusal(416, 'Range not satisfiable', { ...headers, 'content-range': `bytes */${size}` });
    const { start, end } = span ?? { start: 0, end: size };
    if (!isHead) await turn(principal.accountId, outgoing);
    return new Response(isHead ? null : ReadableStream.from(bytes(found.content, { start, end }, outgoing)), {
      status: span ? 206 : 200,
      headers: {
        ...headers,
        'content-type': 'application/octet-stream',
        'content-length': String(end - start),
        'content-disposition': attachment(displayName(found.upload.path).replace(/^.*\//s, '')),
        'x-content-type-options': 'nosniff',
        ...(span && { 'content-range': `bytes ${start}-${end - 1}/${size}` }),
      },
    });
  };

  return [
    route('GET', '/api/v1/directories/:id/uploads/:upload_id/content', content, {
      id: 'getUploadContent',
      tag: 'Files',
      summary: 'Fetch the file of an upload',
      description:
        'Streamed, whatever its size. A single `Range` is honoured, with `If-Range` too; `If-None-Match` saves what the caller has. 409 while the file is being written, or when it is another one by now. Should it change on the way, the connection ends before `Content-Length` bytes have come.',
      answer: {
        status: 200,
        description: 'Its bytes',
        content: 'application/octet-stream',
        headers: ['ETag', 'Accept-Ranges', 'Content-Range', 'Content-Disposition'],
        others: { 206: 'Those of the range', 304: 'As `If-None-Match` has them' },
      },
      refusals: [404, 409, 416],
    }),
  ];
}

/** The connection ends where the file has changed: an answer that is cut cannot be taken for a whole one. */
async function* bytes(content: Content, { start, end }: Span, answer: ServerResponse): AsyncGenerator<Buffer> {
  try {
    yield* content.read(start, end);
  } catch {
    answer.destroy();
  }
}
