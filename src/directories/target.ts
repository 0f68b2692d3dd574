/** The directory that a request is about. */
import type { Kysely } from 'kysely';
import type { DirectoriesTable, Tables } from '../db/schema.ts';
import { BerthError } from '../errors.ts';
import type { Asker } from '../history/audit.ts';

export interface Target {
  readonly accountId: string;
  readonly id: string;
  /** The request behind a change, for the audit. */
  readonly asker?: Asker | undefined;
}

/** @throws {BerthError} `directory_not_found` for one that is unknown, deleted or another account's. */
export async function liveDirectory(
  db: Kysely<Tables>,
  { accountId, id }: Pick<Target, 'accountId' | 'id'>,
): Promise<DirectoriesTable> {
  const directory = await db
    .selectFrom('directories')
    .selectAll()
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  return directory ?? notFound();
}

/** @param cause what the system said, if that tells. */
export function notFound(cause?: unknown): never {
  throw new BerthError('directory_not_found', 'Directory not found', { cause });
}
