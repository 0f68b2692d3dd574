/** Files in check and in the quarantine, for the root of this machine alone: the API of customers does not have these. */
import type { HeldFiles } from '../../checks/held.ts';
import type { DirectoryQueries } from '../../directories/view.ts';
import type { Endpoint } from '../access.ts';
import { ownTarget } from '../own-directory.ts';
import type { Route } from '../route.ts';

const PATH = '/api/v1/directories/:id/held/:file_id';

export function heldRoutes(directories: DirectoryQueries, held: HeldFiles): Omit<Route, 'operation'>[] {
  const release: Endpoint<'/:id/:file_id'> = async (c, principal) => {
    const target = await ownTarget(directories, c, principal, c.req.param('id'));
    await held.release(target, c.req.param('file_id'));
    return c.body(null, 204);
  };
  const remove: Endpoint<'/:id/:file_id'> = async (c, principal) => {
    const target = await ownTarget(directories, c, principal, c.req.param('id'));
    await held.remove(target, c.req.param('file_id'));
    return c.body(null, 204);
  };
  return [
    { method: 'POST', path: `${PATH}/release`, endpoint: release },
    { method: 'DELETE', path: PATH, endpoint: remove },
  ];
}
