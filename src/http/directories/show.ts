/** GET /api/v1/directories/:id */
import { BerthError } from '../../errors.ts';
import type { DirectoryQueries, ShownDirectory } from '../../directories/view.ts';
import type { Endpoint } from '../authentication.ts';
import { dataResponse } from '../json-response.ts';
import { fullDirectory } from './directory-json.ts';

export function showDirectory(directories: DirectoryQueries): Endpoint<'/:id'> {
  return async (c, { accountId }) =>
    dataResponse(fullDirectory(await ownDirectory(directories, accountId, c.req.param('id'))));
}

/** @throws {BerthError} `directory_not_found` for an unknown id and for another account's directory alike. */
export async function ownDirectory(
  directories: DirectoryQueries,
  accountId: string,
  id: string,
): Promise<ShownDirectory> {
  const directory = await directories.byId(accountId, id);
  if (!directory) throw new BerthError('directory_not_found', 'Directory not found');
  return directory;
}
