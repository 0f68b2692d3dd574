/** POST /api/v1/directories */
import { type CreateDependencies, createDirectory } from '../../directories/create.ts';
import type { Endpoint } from '../authentication.ts';
import { readDirectoryFields } from '../body.ts';
import { dataResponse } from '../json-response.ts';
import { askerOf } from './asker.ts';
import { fullDirectory } from './directory-json.ts';

export function createOne(deps: CreateDependencies): Endpoint<'/'> {
  return async (c, principal) => {
    const fields = await readDirectoryFields(c.env.incoming);
    const { directory, password } = await createDirectory(deps, principal.accountId, fields, askerOf(c, principal));
    return dataResponse(fullDirectory(directory, password), 201, {
      location: `/api/v1/directories/${directory.id}`,
      // The only response with the password.
      'cache-control': 'no-store',
    });
  };
}
