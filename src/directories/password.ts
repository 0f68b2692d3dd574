/** A new password for a directory, whose old one may have been lost or leaked. */
import type { DirectoriesTable } from '../db/schema.ts';
import type { Asker } from '../history/audit.ts';
import type { KeptAnswer } from '../history/kept-answers.ts';
import { type ChangeDependencies, revokeAccess } from './change.ts';
import { generatePassword } from './identity.ts';

export interface Renewed {
  readonly directory: DirectoriesTable;
  /** Nobody knows it later. */
  readonly password: string;
}

/**
 * In force at the next login, and the old one refused; live sessions go on. A directory whose mode knows no password keeps
 * it for a mode that does.
 * @param asker the request behind it, for the audit.
 * @param answer keeps the answer to it, if it has an Idempotency-Key.
 * @throws {BerthError} `directory_not_found`, `storage_full`.
 */
export async function renewPassword(
  deps: ChangeDependencies,
  accountId: string,
  id: string,
  asker?: Asker,
  answer?: KeptAnswer<Renewed>,
): Promise<Renewed> {
  const { password, hash: password_hash } = generatePassword();
  const directory = await revokeAccess(
    deps,
    { accountId, id, asker },
    () => ({ password_hash }),
    (tx, changed) => answer?.keep(tx, { directory: changed, password }),
  );
  return { directory, password };
}
