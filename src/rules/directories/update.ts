/** The changes that the specification's requests make to a directory, and a new password. */
import type { DirectoryRow } from '../../foundation/db/schema.ts';
import type { Actor } from '../history/audit.ts';
import { type ChangeOptions, changeDirectory, revokeAccess } from './change.ts';
import { authFields, basicFields, type Fields } from './fields.ts';
import { generatePassword } from './identity.ts';
import { replacePublicKeys } from './public-keys.ts';

/**
 * Changes basic fields (specification, PATCH, 1). Slug and username stay the same.
 * @param actor the request behind it, for the audit.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`.
 */
export async function updateBasics(
  options: ChangeOptions,
  accountId: string,
  id: string,
  fields: Fields,
  actor?: Actor,
): Promise<DirectoryRow> {
  const changes = basicFields(fields);
  return changeDirectory(options, { accountId, id, actor }, () => changes);
}

/**
 * Changes the auth settings, in force at the next login (specification, PATCH, 2). Other fields are ignored.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`.
 */
export async function updateAuth(
  options: ChangeOptions,
  accountId: string,
  id: string,
  fields: Fields,
  actor?: Actor,
): Promise<DirectoryRow> {
  const { auth_mode, public_key } = authFields(fields);
  return revokeAccess(options, { accountId, id, actor }, async (tx, now) => ({
    ...(auth_mode && { auth_mode }),
    ...(public_key && (await replacePublicKeys(tx, id, public_key, now))),
  }));
}

/**
 * Removes all keys and sets the mode to `password` (specification, DELETE public_key), even when there are no keys.
 * @throws {BerthError} `directory_not_found`, `storage_full`.
 */
export async function removePublicKeys(
  options: ChangeOptions,
  accountId: string,
  id: string,
  actor?: Actor,
): Promise<DirectoryRow> {
  return revokeAccess(options, { accountId, id, actor }, async (tx, now) => ({
    auth_mode: 'password',
    ...(await replacePublicKeys(tx, id, undefined, now)),
  }));
}

export interface Renewed {
  readonly directory: DirectoryRow;
  /** Later only its hash is known. */
  readonly password: string;
}

/**
 * Replaces the password, in force at the next login; live sessions continue. If the directory's mode does not allow
 * passwords, the new one is kept until the mode does.
 * @param actor the request behind it, for the audit.
 * @throws {BerthError} `directory_not_found`, `storage_full`.
 */
export async function renewPassword(
  options: ChangeOptions,
  accountId: string,
  id: string,
  actor?: Actor<Renewed>,
): Promise<Renewed> {
  const { password, hash: password_hash } = generatePassword();
  const directory = await revokeAccess(
    options,
    { accountId, id, actor },
    () => ({ password_hash }),
    (tx, changed) => actor?.response?.keep(tx, { directory: changed, password }),
  );
  return { directory, password };
}
