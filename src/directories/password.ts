/** A new password for a directory, whose old one may have been lost or leaked. */
import type { DirectoriesTable } from '../db/schema.ts';
import type { Actor } from '../history/audit.ts';
import type { StoredResponse } from '../history/stored-responses.ts';
import { type ChangeOptions, revokeAccess } from './change.ts';
import { generatePassword } from './identity.ts';

export interface Renewed {
  readonly directory: DirectoriesTable;
  /** Nobody knows it later. */
  readonly password: string;
}

/**
 * In force at the next login, and the old one refused; live sessions go on. A directory whose mode knows no password keeps
 * it for a mode that does.
 * @param actor the request behind it, for the audit.
 * @param answer keeps the answer to it, if it has an Idempotency-Key.
 * @throws {BerthError} `directory_not_found`, `storage_full`.
 */
export async function renewPassword(
  options: ChangeOptions,
  accountId: string,
  id: string,
  actor?: Actor,
  answer?: StoredResponse<Renewed>,
): Promise<Renewed> {
  const { password, hash: password_hash } = generatePassword();
  const directory = await revokeAccess(
    options,
    { accountId, id, actor },
    () => ({ password_hash }),
    (tx, changed) => answer?.keep(tx, { directory: changed, password }),
  );
  return { directory, password };
}
