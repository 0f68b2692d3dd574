/** The changes that the specification's requests make to a directory, and a new password. */
import type { DirectoryRow } from '../../foundation/db/schema.ts';
import { changeDirectory, revokeAccess } from './change.ts';
import { authFields, basicFields, type Fields } from './fields.ts';
import { generatePassword } from './identity.ts';
import { replacePublicKeys } from './public-keys.ts';
import type { RuleContext, Target } from './target.ts';

/**
 * Changes basic fields (specification, PATCH, 1). Slug and username stay the same.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`.
 */
export async function updateBasics(context: RuleContext, target: Target, fields: Fields): Promise<DirectoryRow> {
  const changes = basicFields(fields);
  return changeDirectory(context, target, () => changes);
}

/**
 * Changes the auth settings, in force at the next login (specification, PATCH, 2). Other fields are ignored.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`.
 */
export async function updateAuth(context: RuleContext, target: Target, fields: Fields): Promise<DirectoryRow> {
  const { auth_mode, public_key } = authFields(fields);
  return revokeAccess(context, target, async (tx, now) => ({
    ...(auth_mode && { auth_mode }),
    ...(public_key && (await replacePublicKeys(tx, target.id, public_key, now))),
  }));
}

/**
 * Removes all keys and sets the mode to `password` (specification, DELETE public_key), even when there are no keys.
 * @throws {BerthError} `directory_not_found`, `storage_full`.
 */
export async function removePublicKeys(context: RuleContext, target: Target): Promise<DirectoryRow> {
  return revokeAccess(context, target, async (tx, now) => ({
    auth_mode: 'password',
    ...(await replacePublicKeys(tx, target.id, undefined, now)),
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
 * @throws {BerthError} `directory_not_found`, `storage_full`.
 */
export async function renewPassword(context: RuleContext, target: Target<Renewed>): Promise<Renewed> {
  const { password, hash: password_hash } = generatePassword();
  const directory = await revokeAccess(
    context,
    target,
    () => ({ password_hash }),
    (tx, changed) => target.actor?.response?.keep(tx, { directory: changed, password }),
  );
  return { directory, password };
}
