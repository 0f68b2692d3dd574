/** GET /api/v1/directories/:id/uploads */
import { formatMicros } from '../../clock.ts';
import type { DirectoryQueries } from '../../directories/queries.ts';
import { displayName, type UploadQueries, type UploadRow } from '../../uploads/queries.ts';
import type { Endpoint } from '../authentication.ts';
import { dataResponse } from '../json-response.ts';
import { readPage } from '../page.ts';
import { ownDirectory } from './show.ts';

export function listUploads(directories: DirectoryQueries, uploads: Pick<UploadQueries, 'list'>): Endpoint<'/:id'> {
  return async (c, { accountId }) => {
    const { id } = await ownDirectory(directories, accountId, c.req.param('id'));
    const { rows, headers } = await readPage(c, (page) => uploads.list(id, page));
    return dataResponse(JSON.stringify(rows.map(uploadItem)), 200, headers);
  };
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
