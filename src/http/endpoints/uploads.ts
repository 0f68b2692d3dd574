/** GET /api/v1/directories/:id/uploads */
import * as v from 'valibot';
import { formatMicros } from '../../clock.ts';
import type { DirectoryQueries } from '../../directories/view.ts';
import { displayName, type UploadList, type UploadRow } from '../../uploads/upload-list.ts';
import type { Endpoint } from '../access.ts';
import type { ListTurn } from '../list-turns.ts';
import { ownDirectory } from '../own-directory.ts';
import { PAGE, readPage, requestedPage } from '../page.ts';
import { dataResponse } from '../responses.ts';
import { type Route, route } from '../route.ts';
import { data, Upload } from '../schemas.ts';

/** Rows that are read, serialized and sent at once, which takes some 1 ms. A list may have any number of them. */
const LOT = 200;

export function uploadRoutes(directories: DirectoryQueries, uploads: UploadList, turn: ListTurn): Route[] {
  const list: Endpoint<'/:id'> = async (c, principal) => {
    const { id } = await ownDirectory(directories, principal, c.req.param('id'));
    const { limit, after } = requestedPage(c);
    const first = (): Promise<UploadRow[]> => uploads.list(id, { limit: LOT, after });
    if (limit === undefined || limit > LOT) {
      const rows = await first();
      if (rows.length < LOT) return dataResponse(json(rows));
      await turn(principal.accountId, c.env.outgoing);
      // It may have gone meanwhile.
      await ownDirectory(directories, principal, id);
    }
    if (limit === undefined) return longResponse(uploads, id, await first());
    const { rows, headers } = await readPage(c, (page) => uploads.list(id, { ...page, limit: page.limit ?? limit }));
    return dataResponse(json(rows), 200, headers);
  };
  return [
    route('GET', '/api/v1/directories/:id/uploads', list, {
      id: 'listUploads',
      tag: 'Uploads',
      summary: 'List the files in a directory, newest first',
      query: v.object(PAGE),
      answer: { status: 200, description: 'The files', schema: data(v.array(Upload)) },
      refusals: [404, 422],
    }),
  ];
}

/**
 * The same response for a long list, read and sent a lot at a time, as fast as the client takes it: neither a slow
 * client nor a long list holds more than one lot in memory. Uploads that come meanwhile belong before what is sent.
 */
function longResponse(uploads: UploadList, directoryId: string, first: readonly UploadRow[]): Response {
  return new Response(ReadableStream.from(parts(uploads, directoryId, first)), {
    headers: { 'content-type': 'application/json' },
  });
}

async function* parts(uploads: UploadList, directoryId: string, first: readonly UploadRow[]): AsyncGenerator<Buffer> {
  let rows = first;
  for (let before = '{"data":['; rows.length > 0; before = ',') {
    yield Buffer.from(before + json(rows).slice(1, -1));
    rows = rows.length < LOT ? [] : await uploads.list(directoryId, { limit: LOT, after: rows.at(-1) });
  }
  yield Buffer.from(']}');
}

/** Four fields each (specification, "Upload"). */
function json(rows: readonly UploadRow[]): string {
  return JSON.stringify(
    rows.map(({ id, path, size_bytes, uploaded_at }) => ({
      id,
      filename: displayName(path),
      size_bytes,
      uploaded_at: formatMicros(uploaded_at),
    })),
  );
}
