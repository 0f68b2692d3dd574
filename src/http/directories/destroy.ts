/** DELETE /api/v1/directories/:id */
import { type DeleteDependencies, deleteDirectory } from '../../directories/delete.ts';
import type { Endpoint } from '../authentication.ts';

export function destroyDirectory(deps: DeleteDependencies): Endpoint<'/:id'> {
  return async (c, { accountId }) => {
    await deleteDirectory(deps, accountId, c.req.param('id'));
    return c.body(null, 204);
  };
}
