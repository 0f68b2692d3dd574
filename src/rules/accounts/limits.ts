/** The directories that a key or a user can be limited to (`actor.ts`). */
import type { Transaction } from 'kysely';
import * as v from 'valibot';
import { among } from '../../foundation/db/dialect.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { because, orBlank } from '../../foundation/base/validation.ts';
import { ValidationError } from '../../foundation/base/errors.ts';

/** How many directories a key or a user can be limited to. */
const MOST_DIRECTORIES = 100;

/** The ids or SFTP usernames of directories. */
export const DirectoryNames = v.pipe(
  v.custom<string[]>((value) => Array.isArray(value) && value.every((each) => typeof each === 'string'), orBlank),
  v.metadata({ type: 'array', items: { type: 'string' } }),
  v.check((list) => list.length > 0, because('too_few', 1)),
  v.metadata({ minItems: 1 }),
  v.check((list) => list.length <= MOST_DIRECTORIES, because('too_many', MOST_DIRECTORIES, 'item')),
  v.metadata({ maxItems: MOST_DIRECTORIES }),
);

/**
 * @param kept ids that are accepted although their directories may be gone: without them, somebody could lose a limit by that.
 * @returns the ids of those directories.
 * @throws {ValidationError} naming each that the account does not have.
 */
export async function idsOfDirectories(
  tx: Transaction<Tables>,
  accountId: string,
  named: readonly string[],
  kept: readonly string[] = [],
): Promise<readonly string[]> {
  // PostgreSQL refuses text with NUL.
  const possible = named.filter((each) => !each.includes('\0'));
  const these = among(tx, possible);
  const found = await tx
    .selectFrom('directories')
    .select(['id', 'sftp_username'])
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .where((eb) => eb.or([eb('id', 'in', these), eb('sftp_username', 'in', these)]))
    .execute();
  const ids = new Map(kept.map((id) => [id, id]));
  for (const { id, sftp_username } of found) ids.set(id, id).set(sftp_username, id);
  const unknown = new Set(named.filter((each) => !ids.has(each)).map(quoted));
  if (unknown.size > 0)
    throw new ValidationError({ directories: [...unknown].map((name) => ['not_a_directory', name]) });
  return [...new Set(named.map((each) => ids.get(each) ?? each))];
}

function quoted(text: string): string {
  return text.length > 100 ? 'one' : JSON.stringify(text.toWellFormed());
}
