/** Endpoints for root's commands: files in check or in the quarantine, and partial files. The customers' API does not have these. */
import type { HeldFiles } from '../../../arrivals/checks/held.ts';
import type { DirectoryQueries } from '../../../rules/directories/view.ts';
import type { Endpoint } from '../access.ts';
import { ownTarget } from '../own-directory.ts';
import type { Route } from '../route.ts';
import { formatMicros } from '../../../foundation/base/clock.ts';
import type { DirectoryFiles } from '../../../arrivals/files/directory-files.ts';
import { displayName } from '../../../arrivals/uploads/upload-list.ts';
import { dataResponse } from '../../web/responses.ts';

const HELD = '/api/v1/directories/:id/held/:file_id';
const PARTIAL = '/api/v1/directories/:id/partial/:file_id';

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
    { method: 'POST', path: `${HELD}/release`, endpoint: release },
    { method: 'DELETE', path: HELD, endpoint: remove },
  ];
}

export function partialRoutes(
  directories: DirectoryQueries,
  files: Pick<DirectoryFiles, 'announcePartial' | 'removePartial'>,
): Omit<Route, 'operation'>[] {
  const announce: Endpoint<'/:id/:file_id'> = async (c, principal) => {
    const target = await ownTarget(directories, c, principal, c.req.param('id'));
    const upload = await files.announcePartial(target, c.req.param('file_id'));
    const { id, path, size_bytes, uploaded_at, state } = upload;
    const shown = { id, filename: displayName(path), size_bytes, uploaded_at: formatMicros(uploaded_at), state };
    return dataResponse(JSON.stringify(shown));
  };
  const remove: Endpoint<'/:id/:file_id'> = async (c, principal) => {
    const target = await ownTarget(directories, c, principal, c.req.param('id'));
    await files.removePartial(target, c.req.param('file_id'));
    return c.body(null, 204);
  };
  return [
    { method: 'POST', path: `${PARTIAL}/announce`, endpoint: announce },
    { method: 'DELETE', path: PARTIAL, endpoint: remove },
  ];
}
