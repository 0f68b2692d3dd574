/** PATCH /api/v1/directories/:id. Auth settings in a request are applied alone and need the admin role. */
import { isAuthChange } from '../../directories/fields.ts';
import type { DirectoryQueries } from '../../directories/view.ts';
import { type UpdateDependencies, updateAuth, updateBasics } from '../../directories/update.ts';
import type { Endpoint } from '../authentication.ts';
import { readDirectoryFields } from '../body.ts';
import { dataResponse } from '../json-response.ts';
import { requireAdmin } from '../roles.ts';
import { askerOf } from './asker.ts';
import { fullDirectory } from './directory-json.ts';
import { ownDirectory } from './show.ts';

export function updateDirectory(directories: DirectoryQueries, deps: UpdateDependencies): Endpoint<'/:id'> {
  return async (c, principal) => {
    const { accountId } = principal;
    const { id } = await ownDirectory(directories, accountId, c.req.param('id'));
    const fields = await readDirectoryFields(c.env.incoming);
    const asker = askerOf(c, principal);
    if (!isAuthChange(fields))
      return dataResponse(fullDirectory(await updateBasics(deps, accountId, id, fields, asker)));
    requireAdmin(principal);
    return dataResponse(fullDirectory(await updateAuth(deps, accountId, id, fields, asker)));
  };
}
