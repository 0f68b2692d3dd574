/** GET /api/v1/directories */
import type { DirectoryQueries } from '../../directories/view.ts';
import type { Endpoint } from '../authentication.ts';
import { dataResponse } from '../json-response.ts';
import { readPage } from '../page.ts';
import { listItem } from './directory-json.ts';

export function listDirectories(directories: DirectoryQueries): Endpoint<'/'> {
  return async (c, { accountId }) => {
    const externalId = c.req.query('external_id');
    const { rows, headers } = await readPage(c, (page) => directories.list(accountId, { ...page, externalId }));
    return dataResponse(JSON.stringify(rows.map(listItem)), 200, headers);
  };
}
