/** The uploads of a directory: the list, and a single one. */
import type { AppContext } from '../../web/context.ts';
import type { Context } from 'hono';
import { formatMicros } from '../../../foundation/base/clock.ts';
import { displayName, type Filters, type Page, type UploadRow } from '../../../arrivals/uploads/upload-list.ts';
import { checked, timestamp } from '../../../foundation/base/validation.ts';
import { type Endpoint, ownDirectory } from '../access.ts';
import type { ApiEnv } from '../../web/observe.ts';
import { UPLOAD, UPLOADS } from '../openapi/examples.ts';
import { PAGE, readPage, requestedPage } from '../page.ts';
import { dataResponse } from '../../web/responses.ts';
import { type Route, route } from '../route.ts';
import { data, Upload } from '../schemas.ts';
import * as v from 'valibot';

/** The query parameters, for openapi.json. */
const FILTERS = {
  filename: v.optional(v.pipe(v.string(), v.description('The complete filename: one upload or none.'))),
  prefix: v.optional(v.pipe(v.string(), v.description('Only filenames that begin with this.'))),
  since: v.optional(v.pipe(timestamp, v.description('Only uploads from this time on.'))),
};
const Requested = v.object(FILTERS);

/** Reads at most a batch of rows after the given one. */
type ReadAfter = (after: UploadRow | undefined) => Promise<UploadRow[]>;

/** Rows that are read, serialized and sent at once, in about 1 ms. A list may have any number of rows. */
const BATCH = 200;

export function uploadRoutes(context: AppContext): Route[] {
  const { uploads, web } = context;
  const list: Endpoint<'/:id'> = async (c, principal) => {
    const { id } = await ownDirectory(context, principal, c.req.param('id'));
    const { limit, after: place } = requestedPage(c);
    const after = typeof place === 'object' ? { uploaded_at: place.at, id: place.id } : place;
    const filters = requestedFilters(c);
    const { outgoing } = c.env;
    let waited: Promise<void> | undefined;
    const ownSlot = (): Promise<void> => (waited ??= web.listSlot(principal.accountId, outgoing));
    const readOn = async (): Promise<boolean> => {
      await ownSlot();
      return !outgoing.destroyed;
    };
    const read = (from: Page['after'], count = BATCH): Promise<UploadRow[]> =>
      uploads.list(id, { ...filters, limit: count, after: from, readOn });
    if (limit === undefined || limit > BATCH) {
      const rows = await read(after);
      if (rows.length < BATCH) return dataResponse(json(rows));
      await ownSlot();
      // The directory may have been deleted meanwhile.
      await ownDirectory(context, principal, id);
    }
    if (limit === undefined) return longResponse(await read(after), read);
    const { rows, headers } = await readPage(
      c,
      (page) => read(after, page.limit),
      ({ uploaded_at }) => uploaded_at,
    );
    return dataResponse(json(rows), 200, headers);
  };
  const show: Endpoint<'/:id/:upload_id'> = async (c, principal) => {
    const { id } = await ownDirectory(context, principal, c.req.param('id'));
    return dataResponse(JSON.stringify(uploadJson(await uploads.byId(id, c.req.param('upload_id')))));
  };

  return [
    route('GET', '/api/v1/directories/:id/uploads', list, {
      id: 'listUploads',
      isSpecified: true,
      tag: 'Uploads',
      summary: 'List the files in a directory, newest first',
      description:
        'The filters apply to every page: `filename` matches the complete name, `prefix` the beginning of the name, and `since` the time of the upload.',
      query: v.object({ ...PAGE, ...FILTERS }),
      answer: { status: 200, description: 'The files', schema: data(v.array(Upload)), example: UPLOADS },
      refusals: [404, 422],
    }),
    route('GET', '/api/v1/directories/:id/uploads/:upload_id', show, {
      id: 'getUpload',
      tag: 'Uploads',
      summary: 'Fetch an upload',
      answer: { status: 200, description: 'The upload', schema: data(Upload), example: UPLOAD },
      refusals: [404],
    }),
  ];
}

/**
 * The same response for a long list, read and sent in batches as fast as the client reads, so that neither a slow client nor a
 * long list keeps more than one batch in memory. Uploads that arrive meanwhile would be before those that were sent already.
 */
function longResponse(first: readonly UploadRow[], read: ReadAfter): Response {
  return new Response(ReadableStream.from(parts(first, read)), {
    headers: { 'content-type': 'application/json' },
  });
}

async function* parts(first: readonly UploadRow[], read: ReadAfter): AsyncGenerator<Buffer> {
  let rows = first;
  for (let before = '{"data":['; rows.length > 0; before = ',') {
    yield Buffer.from(before + json(rows).slice(1, -1));
    rows = rows.length < BATCH ? [] : await read(rows.at(-1));
  }
  yield Buffer.from(']}');
}

function json(rows: readonly UploadRow[]): string {
  return JSON.stringify(rows.map(uploadJson));
}

/** The four fields of an upload (specification, "Upload"). */
function uploadJson({ id, path, size_bytes, uploaded_at }: UploadRow) {
  return { id, filename: displayName(path), size_bytes, uploaded_at: formatMicros(uploaded_at) };
}

/** @throws {ValidationError} when `since` is not a time. */
function requestedFilters(c: Context<ApiEnv>): Filters {
  return checked(Requested, c.req.query());
}
