/** Files whose upload was cut off, or whose end nobody saw: an admin announces or deletes each. `files.ts` lists them. */
import type { AppContext } from '../../web/context.ts';
import { formatMicros } from '../../../foundation/base/clock.ts';
import type { AnnouncedPartial } from '../../../arrivals/files/partial.ts';
import { displayName } from '../../../arrivals/uploads/upload-list.ts';
import { dataResponse } from '../../web/responses.ts';
import { type Endpoint, ownTarget, requireAdmin } from '../access.ts';
import { UPLOAD } from '../openapi/examples.ts';
import { type Route, route } from '../route.ts';
import { data, Upload } from '../schemas.ts';
import * as v from 'valibot';

const PARTIAL = '/api/v1/directories/:id/partial/:file_id';

const Announced = v.strictObject({
  ...Upload.entries,
  state: v.pipe(
    v.picklist(['uploaded', 'checking']),
    v.description('`checking`: the file is announced once it has passed the check.'),
  ),
});

function announced({ id, path, size_bytes, uploaded_at, state }: AnnouncedPartial): Response {
  const shown = { id, filename: displayName(path), size_bytes, uploaded_at: formatMicros(uploaded_at), state };
  return dataResponse(JSON.stringify(shown));
}

export function partialRoutes(context: AppContext): Route[] {
  const { files } = context;
  const announce: Endpoint<'/:id/:file_id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal, announced);
    requireAdmin(principal);
    return announced(await files.announcePartial(target, c.req.param('file_id')));
  };
  const remove: Endpoint<'/:id/:file_id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal);
    requireAdmin(principal);
    await files.removePartial(target, c.req.param('file_id'));
    return c.body(null, 204);
  };
  return [
    route('POST', `${PARTIAL}/announce`, announce, {
      id: 'announcePartialFile',
      tag: 'Files',
      summary: 'Make a partial file an upload',
      description:
        'For a file that you know to be complete, although its upload was cut off or nobody saw its end: it becomes an upload as if it had arrived now, with its webhook. `GET …/files?state=partial` lists these files. 409 while a client writes to it, or if it has changed.',
      role: 'admin',
      answer: {
        status: 200,
        description: 'The upload',
        schema: data(Announced),
        example: { data: { ...UPLOAD.data, state: 'uploaded' } },
      },
      refusals: [404, 409, 421, 507],
    }),
    route('DELETE', PARTIAL, remove, {
      id: 'deletePartialFile',
      tag: 'Files',
      summary: 'Delete a partial file',
      description:
        'Removes a file whose upload was cut off, or whose end nobody saw. 409 while a client writes to it, or if it has changed.',
      role: 'admin',
      answer: { status: 204, description: 'Deleted' },
      refusals: [404, 409, 421, 507],
    }),
  ];
}

/** For root's commands about files in check or in the quarantine. The customers' API does not have these. */
const HELD = '/api/v1/directories/:id/held/:file_id';

export function heldRoutes(context: AppContext): Omit<Route, 'operation'>[] {
  const { held } = context;
  const release: Endpoint<'/:id/:file_id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal);
    await held.release(target, c.req.param('file_id'));
    return c.body(null, 204);
  };
  const remove: Endpoint<'/:id/:file_id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal);
    await held.remove(target, c.req.param('file_id'));
    return c.body(null, 204);
  };
  return [
    { method: 'POST', path: `${HELD}/release`, endpoint: release },
    { method: 'DELETE', path: HELD, endpoint: remove },
  ];
}
