/** DELETE /api/v1/directories/:id */
import { type DeleteDependencies, deleteDirectory } from '../../directories/delete.ts';
import type { Endpoint } from '../authentication.ts';
import { askerOf } from './asker.ts';

export function destroyDirectory(deps: DeleteDependencies): Endpoint<'/:id'> {
  return async (c, principal) => {
    await deleteDirectory(deps, principal.accountId, c.req.param('id'), askerOf(c, principal));
    return c.body(null, 204);
  };
}
