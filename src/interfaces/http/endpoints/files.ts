/** The content of files: programs fetch and remove uploads, and put files there for customers to fetch. */
import type { AppContext } from '../../web/context.ts';
import type { IncomingHttpHeaders } from 'node:http';
import { formatMicros } from '../../../foundation/base/clock.ts';
import { BerthError, type ErrorCode } from '../../../foundation/base/errors.ts';
import { filesByPath, LISTED_STATES, type ListedFile as FileRow } from '../../../arrivals/files/file-rows.ts';
import { displayName } from '../../../arrivals/uploads/upload-list.ts';
import { because, checked, INVALID, wholeNumberText } from '../../../foundation/base/validation.ts';
import { type Endpoint, ownDirectory, ownTarget } from '../access.ts';
import { fileAnswer, requestedPrecondition } from '../../web/file-answer.ts';
import { type BodyFile, fileInBody } from '../multipart.ts';
import { requestedPath } from '../../web/requested-path.ts';
import { dataResponse, STATUS } from '../../web/responses.ts';
import { type Route, route } from '../route.ts';
import { Count, data } from '../schemas.ts';
import { arrivals } from '../../web/concurrency.ts';
import { warning } from '../../web/warnings.ts';
import * as v from 'valibot';

/** How many files an account may send at once. Each holds a descriptor. */
const AT_ONCE = 16;

const PlacedFile = v.strictObject({
  path: v.string(),
  size_bytes: v.pipe(v.number(), v.integer(), v.minValue(0)),
});

/** The limit for requests without one. */
const LIMIT = 100;

const ListedState = v.picklist(LISTED_STATES);

const Listing = v.object({
  state: v.optional(
    v.pipe(
      v.string(),
      v.transform((text) => text.split(',')),
      v.array(v.picklist(LISTED_STATES, because('not_states', LISTED_STATES.join(', ')))),
      v.description('Only files in these states, separated by commas. Without it, `uploaded` and `placed`.'),
      v.metadata({ type: 'string' }),
    ),
  ),
  prefix: v.optional(v.pipe(v.string(), v.description('Only paths that begin with this.'))),
  limit: v.optional(v.pipe(wholeNumberText(1, 1000), v.description(`At most this many. Without it, ${LIMIT}.`))),
  after: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^[\w-]{1,6000}$/, INVALID),
      v.description('The end of the previous page, from its `Link` header.'),
    ),
  ),
});

/** What a file is answered with. */
const CONTENT = {
  status: 200,
  description: 'The content of the file',
  content: 'application/octet-stream',
  headers: ['ETag', 'Accept-Ranges', 'Content-Range', 'Content-Disposition'],
  others: { 206: 'The requested byte range', 304: 'Not modified' },
} as const;

/** How many uploads one request removes. Their ids fit into a request line. */
const MOST_AT_ONCE = 100;

const Batch = v.object({
  ids: v.pipe(
    v.string(),
    v.regex(new RegExp(`^[0-9a-f-]{36}(?:,[0-9a-f-]{36}){0,${MOST_AT_ONCE - 1}}$`), because('not_ids', MOST_AT_ONCE)),
    v.description(`1 to ${MOST_AT_ONCE} ids of uploads, separated by commas.`),
  ),
});

/** The errors for which a batch goes on with its other uploads. */
const OF_ONE_FILE: ReadonlySet<ErrorCode> = new Set(['upload_not_found', 'file_changed', 'file_in_use']);

const Kept = v.strictObject({ id: v.string(), status: Count, error: v.string() });
const BatchOutcome = v.strictObject({
  deleted: v.array(v.string()),
  kept: v.pipe(
    v.array(Kept),
    v.description('The files that were not removed, each with the error of a separate request.'),
  ),
});

const ListedFile = v.pipe(
  v.strictObject({
    path: v.pipe(v.string(), v.description('Bytes that are not UTF-8 show as U+FFFD.')),
    size_bytes: Count,
    id: v.pipe(v.string(), v.uuid()),
    state: v.pipe(
      ListedState,
      v.description(
        '`placed`: the file was put there through the API, and the customer has not changed it. `partial`: its upload was cut off, or nobody saw its end.',
      ),
    ),
    upload_id: v.pipe(
      v.nullable(v.pipe(v.string(), v.uuid())),
      v.description('The id if it is an upload; otherwise `null`.'),
    ),
    modified_at: v.pipe(v.string(), v.isoTimestamp()),
  }),
  v.title('ListedFile'),
);

const EXAMPLE = {
  id: 'b7a1c1de-3a0c-4b5e-9a55-0d9c1b7f3e21',
  path: 'reports/2026-11.csv',
  size_bytes: 48_211,
  state: 'placed',
  upload_id: null,
  modified_at: '2026-11-22T09:30:00.123456Z',
};

function fileJson({ id, path, size_bytes, state, uploaded_at }: FileRow) {
  const upload_id = state === 'uploaded' ? id : null;
  return { id, path: displayName(path), size_bytes, state, upload_id, modified_at: formatMicros(uploaded_at) };
}

export function fileRoutes(context: AppContext): Route[] {
  const { files, database, web } = context;
  const content: Endpoint<'/:id/:upload_id'> = async (c, principal) => {
    const directory = await ownDirectory(context, principal, c.req.param('id'));
    const found = await files.content(directory, c.req.param('upload_id'));
    return fileAnswer(c.env, found, () => web.fileSlot(principal.accountId, c.env.outgoing));
  };

  const remove: Endpoint<'/:id/:upload_id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal);
    await files.remove(target, c.req.param('upload_id'));
    return c.body(null, 204);
  };

  const removeEach: Endpoint<'/:id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal);
    // Some clients send a list as a parameter for each of its values.
    const { ids } = checked(Batch, { ids: c.req.queries('ids')?.join(',') });
    const deleted: string[] = [];
    const kept: v.InferOutput<typeof Kept>[] = [];
    for (const id of new Set(ids.split(','))) {
      try {
        await files.remove(target, id);
        deleted.push(id);
      } catch (error) {
        // Any other refusal would be that of the remaining ones, too.
        if (!(error instanceof BerthError) || !OF_ONE_FILE.has(error.code)) throw error;
        kept.push({ id, status: STATUS[error.code], error: error.message });
      }
    }
    return dataResponse(JSON.stringify({ deleted, kept }));
  };

  const arriving = arrivals();
  const put: Endpoint<'/:id'> = async (c, principal) => {
    const { incoming, untimed } = c.env;
    const target = await ownTarget(context, c, principal);
    checkCoding(incoming.headers);
    const path = requestedPath(incoming.url ?? '', `/api/v1/directories/${target.id}/files/`);
    const arrived = arriving({ [target.accountId]: AT_ONCE });
    let file: BodyFile | undefined;
    try {
      untimed?.();
      file = await fileInBody(incoming);
      const placed = await files.place(target, path, file.content, requestedPrecondition(incoming.headers));
      const { size_bytes, isNew, replaced, tag } = placed;
      return dataResponse(JSON.stringify({ path: displayName(path), size_bytes }), isNew ? 201 : 200, {
        ...(tag !== undefined && { etag: `"${tag}"` }),
        ...warning(replaced && `the upload ${replaced} was replaced`),
      });
    } finally {
      file?.close();
      arrived();
    }
  };

  const pathIn = (c: Parameters<Endpoint>[0], id: string) =>
    requestedPath(c.env.incoming.url ?? '', `/api/v1/directories/${id}/files/`);

  const list: Endpoint<'/:id'> = async (c, principal) => {
    const { id } = await ownDirectory(context, principal, c.req.param('id'));
    const { prefix, after, state: states, limit = LIMIT } = checked(Listing, c.req.query());
    const start = after === undefined ? undefined : Buffer.from(after, 'base64url');
    const found = await filesByPath(database.reads, id, { states, prefix, limit: limit + 1, after: start });
    const hasMore = found.length > limit;
    found.length = Math.min(found.length, limit);
    const next = new URL(c.req.url);
    next.searchParams.set('after', found.at(-1)?.path.toString('base64url') ?? '');
    const link = { link: `<${next.pathname}${next.search}>; rel="next"` };
    return dataResponse(JSON.stringify(found.map(fileJson)), 200, hasMore ? link : {});
  };

  const get: Endpoint<'/:id'> = async (c, principal) => {
    const directory = await ownDirectory(context, principal, c.req.param('id'));
    const found = await files.contentAt(directory, pathIn(c, c.req.param('id')));
    return fileAnswer(c.env, found, () => web.fileSlot(principal.accountId, c.env.outgoing));
  };

  const removeAt: Endpoint<'/:id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal);
    await files.removeAt(target, pathIn(c, target.id), requestedPrecondition(c.env.incoming.headers));
    return c.body(null, 204);
  };

  return [
    route('GET', '/api/v1/directories/:id/files', list, {
      id: 'listFiles',
      tag: 'Files',
      summary: 'List the files in a directory by their paths',
      description:
        'Lists files that the customer has uploaded and files that were put there through the API. Leaves out files that are being written or that still have a temporary name. Files that were cut off are listed only with `state=partial`.',
      query: Listing,
      answer: {
        status: 200,
        description: 'The files',
        schema: data(v.array(ListedFile)),
        example: { data: [EXAMPLE] },
      },
      refusals: [404, 422],
    }),
    route('GET', '/api/v1/directories/:id/files/:path{.+}', get, {
      id: 'getFile',
      tag: 'Files',
      summary: 'Fetch the file at a path',
      description: 'Works like fetching the file of an upload, and also for files that were put there through the API.',
      accepts: ['Range', 'If-None-Match'],
      answer: CONTENT,
      refusals: [404, 409, 416, 421, 422],
    }),
    route('DELETE', '/api/v1/directories/:id/files/:path{.+}', removeAt, {
      id: 'deleteFile',
      tag: 'Files',
      summary: 'Remove the file at a path',
      description:
        'Removes an upload, or a file that was put there through the API. With `If-Match`, only if the file still has that `ETag`. 409 while the file is being written.',
      accepts: ['If-Match'],
      answer: { status: 204, description: 'Deleted' },
      refusals: [404, 409, 412, 421, 422, 507],
    }),
    route('GET', '/api/v1/directories/:id/uploads/:upload_id/content', content, {
      id: 'getUploadContent',
      tag: 'Files',
      summary: 'Fetch the file of an upload',
      description:
        'The file is streamed, whatever its size. A single `Range` is supported, also with `If-Range`. With `If-None-Match`, an unchanged file is not sent again. 409 if the file is being written or has been replaced. If the file changes while it is being sent, the connection ends before `Content-Length` bytes have arrived.',
      answer: CONTENT,
      refusals: [404, 409, 416, 421],
    }),
    route('DELETE', '/api/v1/directories/:id/uploads/:upload_id', remove, {
      id: 'deleteUpload',
      tag: 'Files',
      summary: 'Remove the file of an upload',
      description:
        'Removes the file and its entry in the list, for example after your program has fetched it. 409 if the file is being written or has been replaced: a newer file with the same name is never removed.',
      answer: { status: 204, description: 'Deleted' },
      refusals: [404, 409, 421, 507],
    }),
    route('DELETE', '/api/v1/directories/:id/uploads', removeEach, {
      id: 'deleteUploads',
      tag: 'Files',
      summary: 'Remove the files of up to 100 uploads',
      description:
        'Removes each file as a separate request would, and lists those that were not removed, with the reason: 404 if the file no longer exists, 409 if it is being written or has been replaced. The request is safe to repeat.',
      query: Batch,
      answer: {
        status: 200,
        description: 'What was removed, and what was not',
        schema: data(BatchOutcome),
        example: {
          data: {
            deleted: ['573b642f-87ee-4595-924a-7dd501515b7f'],
            kept: [{ id: '0c4c9f2e-5a55-4f0f-8e07-3d2f2b3c9a10', status: 404, error: 'Upload not found' }],
          },
        },
      },
      refusals: [404, 421, 422, 507],
    }),
    route('PUT', '/api/v1/directories/:id/files/:path{.+}', put, {
      id: 'putFile',
      tag: 'Files',
      summary: 'Put a file there for the customer to fetch',
      description:
        'The body is the file, of any type and size, or a form (`multipart/form-data`) with one file. The file appears only once it is complete, and belongs to the SFTP user. Missing folders are created. An existing file is replaced; if it was an upload, a `Warning` header names it. With `If-None-Match: *`, an existing file is not replaced, and the response is 412. With `If-Match`, only a file with that `ETag` is replaced. The new file is not an upload: no webhook is sent, and the list of uploads does not contain it. It counts toward `storage_bytes`, and `retention_days` applies to it. If the customer changes it by SFTP, it becomes an upload. `path` is percent-encoded; `%2F` in it is a slash.',
      accepts: ['If-Match', 'If-None-Match'],
      body: 'bytes',
      answer: {
        status: 201,
        headers: ['ETag', 'Warning'],
        description: 'Created',
        others: { 200: 'Replaced an existing file' },
        schema: data(PlacedFile),
        example: { data: { path: 'reports/2026-11.csv', size_bytes: 48211 } },
      },
      refusals: [400, 404, 409, 412, 415, 421, 422, 507],
    }),
  ];
}

/** Refuses bodies that are not the whole file as it is (RFC 9110, section 14.5). */
export function checkCoding(headers: IncomingHttpHeaders): void {
  if (!/^(identity)?$/i.test(headers['content-encoding'] ?? '')) {
    throw new BerthError('unsupported_media_type', 'Content-Encoding is not supported');
  }
  if (headers['content-range'] !== undefined) {
    throw new BerthError('partial_put', 'Content-Range is not supported');
  }
}
