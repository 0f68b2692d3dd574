/** The files themselves: what was uploaded goes out, and is removed; what customers are to fetch comes in. */
import type { IncomingHttpHeaders } from 'node:http';
import * as v from 'valibot';
import { BerthError } from '../../errors.ts';
import type { DirectoryQueries } from '../../directories/view.ts';
import type { DirectoryFiles } from '../../uploads/directory-files.ts';
import { displayName } from '../../uploads/upload-list.ts';
import type { Endpoint } from '../access.ts';
import { fileAnswer } from '../file-answer.ts';
import { ownDirectory, ownTarget } from '../own-directory.ts';
import { receivedBytes } from '../received-bytes.ts';
import { requestedPath } from '../requested-path.ts';
import { dataResponse } from '../responses.ts';
import { type Route, route } from '../route.ts';
import { data } from '../schemas.ts';
import type { Turn } from '../turns.ts';

/** Files that one account sends at once: each holds a descriptor. */
const AT_ONCE = 16;

const PlacedFile = v.strictObject({
  path: v.string(),
  size_bytes: v.pipe(v.number(), v.integer(), v.minValue(0)),
});

export function fileRoutes(directories: DirectoryQueries, files: DirectoryFiles, turn: Turn): Route[] {
  const content: Endpoint<'/:id/:upload_id'> = async (c, principal) => {
    const directory = await ownDirectory(directories, principal, c.req.param('id'));
    const found = await files.content(directory, c.req.param('upload_id'));
    return fileAnswer(c.env, found, () => turn(principal.accountId, c.env.outgoing));
  };

  const remove: Endpoint<'/:id/:upload_id'> = async (c, principal) => {
    const target = await ownTarget(directories, c, principal, c.req.param('id'));
    await files.remove(target, c.req.param('upload_id'));
    return c.body(null, 204);
  };

  const coming = new Map<string, number>();
  const put: Endpoint<'/:id'> = async (c, principal) => {
    const { incoming, untimed } = c.env;
    const { accountId } = principal;
    const target = await ownTarget(directories, c, principal, c.req.param('id'));
    checkCoding(incoming.headers);
    const path = requestedPath(incoming.url ?? '', `/api/v1/directories/${target.id}/files/`);
    const before = coming.get(accountId) ?? 0;
    if (before >= AT_ONCE) throw new BerthError('rate_limited', `Over ${AT_ONCE} files are coming at once`);
    coming.set(accountId, before + 1);
    try {
      untimed?.();
      const { size_bytes, isNew } = await files.place(target, path, receivedBytes(incoming));
      return dataResponse(JSON.stringify({ path: displayName(path), size_bytes }), isNew ? 201 : 200);
    } finally {
      const left = (coming.get(accountId) ?? 1) - 1;
      if (left > 0) coming.set(accountId, left);
      else coming.delete(accountId);
    }
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
      refusals: [404, 409, 416, 421],
    }),
    route('DELETE', '/api/v1/directories/:id/uploads/:upload_id', remove, {
      id: 'deleteUpload',
      tag: 'Files',
      summary: 'Remove the file of an upload',
      description:
        'The file and what is known of it, so that a receiver acknowledges what it has fetched. 409 while the file is being written, or when it is another one by now: a newer file of that name is never removed.',
      answer: { status: 204, description: 'It has gone' },
      refusals: [404, 409, 421, 507],
    }),
    route('PUT', '/api/v1/directories/:id/files/:path{.+}', put, {
      id: 'putFile',
      tag: 'Files',
      summary: 'Put a file there for the customer to fetch',
      description:
        'The body is the file, of any type and size. It appears whole, in one step, owned by the SFTP user, with the folders above it. It is no upload: no webhook is sent, the list of uploads does not have it; `storage_bytes` counts it, and `retention_days` removes it. What the customer makes of it later by SFTP is an upload. `path` is percent-encoded; `%2F` in it is a slash.',
      body: 'bytes',
      answer: {
        status: 201,
        description: 'It is there',
        others: { 200: 'It is there, in the place of another one' },
        schema: data(PlacedFile),
        example: { data: { path: 'reports/2026-11.csv', size_bytes: 48211 } },
      },
      refusals: [400, 404, 409, 415, 421, 422, 507],
    }),
  ];
}

/** The body is the file itself, and the whole of it (RFC 9110, section 14.5). */
function checkCoding(headers: IncomingHttpHeaders): void {
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') {
    throw new BerthError('unsupported_media_type', 'Content-Encoding is not supported');
  }
  if (headers['content-range'] !== undefined) {
    throw new BerthError('partial_put', 'Content-Range is not supported');
  }
}
