/** GET /api/v1/directories/:id */
import type { WhileUnchanged } from '../../db/while-unchanged.ts';
import { BerthError } from '../../errors.ts';
import type { DirectoryQueries, ShownDirectory } from '../../directories/queries.ts';
import type { Endpoint } from '../authentication.ts';
import { dataResponse } from '../json-response.ts';
import { fullDirectory } from './directory-json.ts';

/** What was answered is kept as text while nothing changes: clients poll. */
export function showDirectory(directories: DirectoryQueries, answers: WhileUnchanged<string>): Endpoint<'/:id'> {
  return async (c, { accountId }) => {
    const id = c.req.param('id');
    const found = await answers.get(`${accountId} ${id}`, async () => {
      const directory = await directories.byId(accountId, id);
      return directory && fullDirectory(directory);
    });
    if (found === undefined) throw notFound();
    return dataResponse(found);
  };
}

/** @throws {BerthError} `directory_not_found` for an unknown id and for another account's directory alike. */
export async function ownDirectory(
  directories: DirectoryQueries,
  accountId: string,
  id: string,
): Promise<ShownDirectory> {
  const directory = await directories.byId(accountId, id);
  if (!directory) throw notFound();
  return directory;
}

function notFound(): BerthError {
  return new BerthError('directory_not_found', 'Directory not found');
}
