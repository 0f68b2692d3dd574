/** POST /api/v1/directories */
import { type CreateDependencies, createDirectory } from '../../directories/create.ts';
import type { Endpoint } from '../authentication.ts';
import { readDirectoryFields } from '../body.ts';
import { dataResponse } from '../json-response.ts';
import { fullDirectory } from './directory-json.ts';

export function createOne(deps: CreateDependencies): Endpoint<'/'> {
  return async (c, { accountId }) => {
    const fields = await readDirectoryFields(c.env.incoming);
    const { directory, password } = await createDirectory(deps, accountId, fields);
    return dataResponse(fullDirectory(directory, password), 201, {
      location: `/api/v1/directories/${directory.id}`,
      // The only response with the password.
      'cache-control': 'no-store',
    });
  };
}
