/** The specification's endpoints for directories. Each reads the request, calls one rule, and writes the response. */
import type { AppContext } from '../../web/context.ts';
import { type Created, createDirectory } from '../../../rules/directories/create.ts';
import { deleteDirectory } from '../../../rules/directories/delete.ts';
import { AuthFields, BasicFields, isAuthChange, NewDirectory, SETTABLE } from '../../../rules/directories/fields.ts';
import { type ListedDirectory, listDirectories, type ShownDirectory } from '../../../rules/directories/view.ts';
import { removePublicKeys, updateAuth, updateBasics } from '../../../rules/directories/update.ts';
import { accountTarget, type Endpoint, ownDirectory, ownTarget, requireAdmin } from '../access.ts';
import { readDirectoryFields } from '../body.ts';
import { CREATED, DIRECTORY, LISTED } from '../openapi/examples.ts';
import { PAGE, readPage, type RequestedPage } from '../page.ts';
import { dataResponse, SECRET } from '../../web/responses.ts';
import { type Route, route } from '../route.ts';
import { CreatedDirectory, data, Directory, ListItem } from '../schemas.ts';
import { lockedOut, notApplied, unreachable, warning } from '../../web/warnings.ts';
import { formatMicros } from '../../../foundation/base/clock.ts';
import * as v from 'valibot';

export function directoryRoutes(context: AppContext): Route[] {
  const list: Endpoint = async (c, { accountId, scope }) => {
    const externalId = c.req.query('external_id');
    const read = (page: RequestedPage) =>
      listDirectories(context.database.reads, accountId, { ...page, externalId, only: scope.directories });
    const { rows, headers } = await readPage(c, read, ({ inserted_at }) => inserted_at);
    return dataResponse(JSON.stringify(rows.map(listItem)), 200, headers);
  };

  const create: Endpoint = async (c, principal) => {
    const { fields, beside } = await readDirectoryFields(c.env.incoming);
    const answer = ({ directory, password }: Created): Response =>
      dataResponse(fullDirectory(directory, password), 201, {
        location: `/api/v1/directories/${directory.id}`,
        ...SECRET,
        ...warning(notApplied(SETTABLE.create, fields, beside)),
      });
    return answer(await createDirectory(context, accountTarget(c, principal, answer), fields));
  };

  const show: Endpoint<'/:id'> = async (c, principal) =>
    dataResponse(fullDirectory(await ownDirectory(context, principal, c.req.param('id'))), 200, SECRET);

  /** If a request has auth settings, only these are applied, and it needs the admin role (specification, PATCH). */
  const update: Endpoint<'/:id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal);
    const { fields, beside } = await readDirectoryFields(c.env.incoming);
    const isAuth = isAuthChange(fields);
    if (isAuth) requireAdmin(principal);
    const change = isAuth ? updateAuth : updateBasics;
    const directory = await change(context, target, fields);
    const found = isAuth
      ? [notApplied(SETTABLE.auth, fields, beside), lockedOut(directory)]
      : [notApplied(SETTABLE.basics, fields, beside), unreachable(fields, context.mayReach)];
    return dataResponse(fullDirectory(directory), 200, { ...SECRET, ...warning(...found) });
  };

  const destroy: Endpoint<'/:id'> = async (c, principal) => {
    await deleteDirectory(context, { ...accountTarget(c, principal), id: c.req.param('id') });
    return c.body(null, 204);
  };

  const destroyPublicKey: Endpoint<'/:id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal);
    requireAdmin(principal);
    return dataResponse(fullDirectory(await removePublicKeys(context, target)), 200, SECRET);
  };

  const shown = { description: 'The directory', schema: data(Directory), example: DIRECTORY };
  return [
    route('GET', '/api/v1/directories', list, {
      id: 'listDirectories',
      isNarrowed: true,
      isSpecified: true,
      tag: 'Directories',
      summary: 'List directories, newest first',
      query: v.object({
        external_id: v.optional(v.pipe(v.string(), v.description('Only directories with this `external_id`.'))),
        ...PAGE,
      }),
      answer: { status: 200, description: 'The directories', schema: data(v.array(ListItem)), example: LISTED },
      refusals: [422],
    }),
    route('POST', '/api/v1/directories', create, {
      id: 'createDirectory',
      isSpecified: true,
      tag: 'Directories',
      summary: 'Create a directory',
      body: {
        schema: v.object({ directory: NewDirectory }),
        example: {
          directory: { name: 'Acme Corp', external_id: 'order-7', metadata: { team: 'billing' }, retention_days: 30 },
        },
      },
      answer: {
        status: 201,
        description: 'The directory and its password',
        schema: data(CreatedDirectory),
        example: CREATED,
        headers: ['Location'],
      },
      refusals: [507],
    }),
    route('GET', '/api/v1/directories/:id', show, {
      id: 'getDirectory',
      isSpecified: true,
      tag: 'Directories',
      summary: 'Fetch a directory',
      answer: { status: 200, ...shown },
      refusals: [404],
    }),
    route('PATCH', '/api/v1/directories/:id', update, {
      id: 'updateDirectory',
      isSpecified: true,
      tag: 'Directories',
      summary: 'Change a directory',
      description:
        'If the body has `auth_mode` or `public_key`, only these two fields are applied, and the API key needs the admin role.',
      body: {
        schema: v.object({ directory: v.union([AuthFields, BasicFields]) }),
        example: { directory: { webhook_url: 'https://example.com/hook' } },
      },
      answer: { status: 200, ...shown },
      refusals: [404, 507],
    }),
    route('DELETE', '/api/v1/directories/:id', destroy, {
      id: 'deleteDirectory',
      isSpecified: true,
      tag: 'Directories',
      summary: 'Delete a directory, its files and its credentials',
      answer: { status: 204, description: 'Deleted' },
      refusals: [404, 507],
    }),
    route('DELETE', '/api/v1/directories/:id/public_key', destroyPublicKey, {
      id: 'deletePublicKey',
      isSpecified: true,
      tag: 'Access',
      summary: 'Remove all public keys and switch to password login',
      role: 'admin',
      answer: { status: 200, ...shown },
      refusals: [404, 507],
    }),
  ];
}

/** The seven fields in a list. */
function listItem(directory: ListedDirectory): object {
  const { id, name, slug, external_id, sftp_username, storage_bytes, inserted_at } = directory;
  return { id, name, slug, external_id, sftp_username, storage_bytes, inserted_at: formatMicros(inserted_at) };
}

/**
 * The JSON text of all eighteen fields, and of the password where a response has it. Metadata is stored as JSON text and
 * inserted as it is, so that nothing is parsed and no number changes.
 */
export function fullDirectory(directory: ShownDirectory, sftp_password?: string): string {
  const { id, name, description, slug, external_id } = directory;
  const before = JSON.stringify({ id, name, description, slug, external_id });
  const after = JSON.stringify({
    sftp_host: directory.sftp_host,
    sftp_port: directory.sftp_port,
    sftp_username: directory.sftp_username,
    sftp_password,
    webhook_url: directory.webhook_url,
    webhook_secret: directory.webhook_secret,
    max_connections: directory.max_connections,
    storage_bytes: directory.storage_bytes,
    retention_days: directory.retention_days,
    auth_mode: directory.auth_mode,
    public_key_fingerprint: directory.public_key_fingerprint,
    inserted_at: formatMicros(directory.inserted_at),
    updated_at: formatMicros(directory.updated_at),
  });
  return `${before.slice(0, -1)},"metadata":${directory.metadata},${after.slice(1)}`;
}
