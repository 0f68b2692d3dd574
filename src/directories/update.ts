/** Changes what the specification's requests may change of a directory. */
import type { DirectoriesTable } from '../db/schema.ts';
import type { Asker } from '../history/audit.ts';
import { type ChangeDependencies, changeDirectory, revokeAccess } from './change.ts';
import { authFields, basicFields, type Fields } from './fields.ts';

/**
 * Basic fields (specification, PATCH, 1). Slug and username stay. The other changes throw the same errors.
 * @param asker the request behind it, for the audit.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`.
 */
export async function updateBasics(
  deps: ChangeDependencies,
  accountId: string,
  id: string,
  fields: Fields,
  asker?: Asker,
): Promise<DirectoriesTable> {
  const changes = basicFields(fields);
  return changeDirectory(deps, { accountId, id, asker }, () => changes);
}

/** Auth settings, which count from the next login (specification, PATCH, 2). Other fields are not looked at. */
export async function updateAuth(
  deps: ChangeDependencies,
  accountId: string,
  id: string,
  fields: Fields,
  asker?: Asker,
): Promise<DirectoriesTable> {
  const { auth_mode, public_key } = authFields(fields);
  const changes = {
    ...(auth_mode && { auth_mode }),
    ...(public_key && { public_key: public_key.line, public_key_fingerprint: public_key.fingerprint }),
  };
  return revokeAccess(deps, { accountId, id, asker }, () => changes);
}

/** Back to the original password (specification, DELETE public_key); without a stored key it still sets the mode. */
export async function removePublicKey(
  deps: ChangeDependencies,
  accountId: string,
  id: string,
  asker?: Asker,
): Promise<DirectoriesTable> {
  const changes = { auth_mode: 'password', public_key: null, public_key_fingerprint: null } as const;
  return revokeAccess(deps, { accountId, id, asker }, () => changes);
}
