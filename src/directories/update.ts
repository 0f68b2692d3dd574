/** Changes what the specification's requests may change of a directory. */
import type { DirectoriesTable } from '../db/schema.ts';
import type { Actor } from '../history/audit.ts';
import { type ChangeOptions, changeDirectory, revokeAccess } from './change.ts';
import { authFields, basicFields, type Fields } from './fields.ts';
import { replacePublicKeys } from './public-keys.ts';

/**
 * Basic fields (specification, PATCH, 1). Slug and username stay. The other changes throw the same errors.
 * @param actor the request behind it, for the audit.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`.
 */
export async function updateBasics(
  options: ChangeOptions,
  accountId: string,
  id: string,
  fields: Fields,
  actor?: Actor,
): Promise<DirectoriesTable> {
  const changes = basicFields(fields);
  return changeDirectory(options, { accountId, id, actor }, () => changes);
}

/** Auth settings, which count from the next login (specification, PATCH, 2). Other fields are not looked at. */
export async function updateAuth(
  options: ChangeOptions,
  accountId: string,
  id: string,
  fields: Fields,
  actor?: Actor,
): Promise<DirectoriesTable> {
  const { auth_mode, public_key } = authFields(fields);
  return revokeAccess(options, { accountId, id, actor }, async (tx, now) => ({
    ...(auth_mode && { auth_mode }),
    ...(public_key && (await replacePublicKeys(tx, id, public_key, now))),
  }));
}

/** Back to the original password (specification, DELETE public_key); without a stored key it still sets the mode. */
export async function removePublicKeys(
  options: ChangeOptions,
  accountId: string,
  id: string,
  actor?: Actor,
): Promise<DirectoriesTable> {
  return revokeAccess(options, { accountId, id, actor }, async (tx, now) => ({
    auth_mode: 'password',
    ...(await replacePublicKeys(tx, id, undefined, now)),
  }));
}
