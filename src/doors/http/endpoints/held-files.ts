/** Endpoints for root's commands about files in check or in the quarantine. The customers' API does not have these. */
import type { HeldFiles } from '../../../arrivals/checks/held.ts';
import type { DirectoryQueries } from '../../../rules/directories/view.ts';
import type { Endpoint } from '../access.ts';
import { ownTarget } from '../own-directory.ts';
import type { Route } from '../route.ts';

const HELD = '/api/v1/directories/:id/held/:file_id';

export function heldRoutes(directories: DirectoryQueries, held: HeldFiles): Omit<Route, 'operation'>[] {
  const release: Endpoint<'/:id/:file_id'> = async (c, principal) => {
    const target = await ownTarget(directories, c, principal);
    await held.release(target, c.req.param('file_id'));
    return c.body(null, 204);
  };
  const remove: Endpoint<'/:id/:file_id'> = async (c, principal) => {
    const target = await ownTarget(directories, c, principal);
    await held.remove(target, c.req.param('file_id'));
    return c.body(null, 204);
  };
  return [
    { method: 'POST', path: `${HELD}/release`, endpoint: release },
    { method: 'DELETE', path: HELD, endpoint: remove },
  ];
}
