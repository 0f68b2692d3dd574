/** DELETE /api/v1/directories/:id/public_key */
import type { DirectoryQueries } from '../../directories/view.ts';
import { removePublicKey, type UpdateDependencies } from '../../directories/update.ts';
import type { Endpoint } from '../authentication.ts';
import { dataResponse } from '../json-response.ts';
import { requireAdmin } from '../roles.ts';
import { askerOf } from './asker.ts';
import { fullDirectory } from './directory-json.ts';
import { ownDirectory } from './show.ts';

export function destroyPublicKey(directories: DirectoryQueries, deps: UpdateDependencies): Endpoint<'/:id'> {
  return async (c, principal) => {
    const { id } = await ownDirectory(directories, principal.accountId, c.req.param('id'));
    requireAdmin(principal);
    return dataResponse(fullDirectory(await removePublicKey(deps, principal.accountId, id, askerOf(c, principal))));
  };
}
