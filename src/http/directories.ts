/** The endpoints of directories: request in, one rule of the domain, response out. */
import type { Context } from 'hono';
import type { Principal } from '../accounts/authenticate.ts';
import { type CreateDependencies, createDirectory } from '../directories/create.ts';
import { deleteDirectory } from '../directories/delete.ts';
import { isAuthChange } from '../directories/fields.ts';
import type { DirectoryQueries, ShownDirectory } from '../directories/view.ts';
import { removePublicKey, updateAuth, updateBasics } from '../directories/update.ts';
import { BerthError } from '../errors.ts';
import type { Asker } from '../history/audit.ts';
import { type Endpoint, requireAdmin } from './access.ts';
import { readDirectoryFields } from './body.ts';
import { fullDirectory, listItem } from './directory-json.ts';
import type { ApiEnv } from './observe.ts';
import { readPage } from './page.ts';
import { dataResponse } from './responses.ts';
import { lockedOut, type MayReach, notApplied, unreachable, warning } from './warnings.ts';

export function directoryEndpoints(directories: DirectoryQueries, rules: CreateDependencies, mayReach: MayReach) {
  const list: Endpoint<'/'> = async (c, { accountId }) => {
    const externalId = c.req.query('external_id');
    const { rows, headers } = await readPage(c, (page) => directories.list(accountId, { ...page, externalId }));
    return dataResponse(JSON.stringify(rows.map(listItem)), 200, headers);
  };

  const create: Endpoint<'/'> = async (c, principal) => {
    const { fields, beside } = await readDirectoryFields(c.env.incoming);
    const { directory, password } = await createDirectory(rules, principal.accountId, fields, askerOf(c, principal));
    return dataResponse(fullDirectory(directory, password), 201, {
      location: `/api/v1/directories/${directory.id}`,
      // The only response with the password.
      'cache-control': 'no-store',
      ...warning(notApplied('create', fields, beside)),
    });
  };

  const show: Endpoint<'/:id'> = async (c, principal) =>
    dataResponse(fullDirectory(await ownDirectory(directories, principal, c.req.param('id'))));

  /** Auth settings in a request are applied alone and need the admin role (specification, PATCH). */
  const update: Endpoint<'/:id'> = async (c, principal) => {
    const { id } = await ownDirectory(directories, principal, c.req.param('id'));
    const { fields, beside } = await readDirectoryFields(c.env.incoming);
    const isAuth = isAuthChange(fields);
    if (isAuth) requireAdmin(principal);
    const change = isAuth ? updateAuth : updateBasics;
    const directory = await change(rules, principal.accountId, id, fields, askerOf(c, principal));
    const found = isAuth
      ? [notApplied('auth', fields, beside), lockedOut(directory)]
      : [notApplied('basics', fields, beside), unreachable(fields, mayReach)];
    return dataResponse(fullDirectory(directory), 200, warning(...found));
  };

  const destroy: Endpoint<'/:id'> = async (c, principal) => {
    await deleteDirectory(rules, principal.accountId, c.req.param('id'), askerOf(c, principal));
    return c.body(null, 204);
  };

  const destroyPublicKey: Endpoint<'/:id'> = async (c, principal) => {
    const { id } = await ownDirectory(directories, principal, c.req.param('id'));
    requireAdmin(principal);
    return dataResponse(fullDirectory(await removePublicKey(rules, principal.accountId, id, askerOf(c, principal))));
  };

  return { list, create, show, update, destroy, destroyPublicKey };
}

/** @throws {BerthError} `directory_not_found` for an unknown id and for another account's directory alike. */
export async function ownDirectory(
  directories: DirectoryQueries,
  { accountId }: Principal,
  id: string,
): Promise<ShownDirectory> {
  const directory = await directories.byId(accountId, id);
  if (!directory) throw new BerthError('directory_not_found', 'Directory not found');
  return directory;
}

/** Who asks for a change, as the audit names it. */
function askerOf(c: Context<ApiEnv>, { accountId, keyId }: Principal): Asker {
  const { id, route = '' } = c.env.notes;
  return { accountId, keyId, requestId: id, route: `${c.req.method} ${route}` };
}
