/** GET /api/v1/directories/:id/uploads */
import { setImmediate } from 'node:timers/promises';
import { formatMicros } from '../../clock.ts';
import type { DirectoryQueries } from '../../directories/queries.ts';
import { displayName, type UploadQueries, type UploadRow } from '../../uploads/queries.ts';
import type { Endpoint } from '../authentication.ts';
import { dataResponse } from '../json-response.ts';
import { readPage, requestedPage } from '../page.ts';
import { ownDirectory } from './show.ts';

/** Rows that are read and written down at once, which takes some 2 ms. A list may have any number of them. */
const LOT = 500;

type Queries = Pick<UploadQueries, 'list' | 'listInLots'>;

export function listUploads(directories: DirectoryQueries, uploads: Queries): Endpoint<'/:id'> {
  return async (c, { accountId }) => {
    const { id } = await ownDirectory(directories, accountId, c.req.param('id'));
    const { limit, after } = requestedPage(c);
    if (limit === undefined) {
      const first = await uploads.list(id, { limit: LOT + 1, after });
      return first.length > LOT ? longResponse(uploads.listInLots(id, after, LOT)) : dataResponse(json(first));
    }
    const { rows, headers } = await readPage(c, (page) => uploads.list(id, page));
    return dataResponse(json(rows), 200, headers);
  };
}

/**
 * What `dataResponse` makes of all rows, put together and sent bit by bit. Complete before the first bit is sent: a client
 * that reads slowly must not hold on to a moment of the database.
 */
async function longResponse(lots: AsyncIterable<UploadRow[]>): Promise<Response> {
  const parts = [Buffer.from('{"data":[')];
  for await (const rows of lots) {
    parts.push(Buffer.from((parts.length === 1 ? '' : ',') + json(rows).slice(1, -1)));
    await setImmediate();
  }
  parts.push(Buffer.from(']}'));
  const length = parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const headers = { 'content-type': 'application/json', 'content-length': String(length) };
  return new Response(ReadableStream.from(parts), { headers });
}

function json(rows: readonly UploadRow[]): string {
  return JSON.stringify(rows.map(uploadItem));
}

/** Four fields (specification, "Upload"). */
function uploadItem(upload: UploadRow): object {
  return {
    id: upload.id,
    filename: displayName(upload.path),
    size_bytes: upload.size_bytes,
    uploaded_at: formatMicros(upload.uploaded_at),
  };
}
