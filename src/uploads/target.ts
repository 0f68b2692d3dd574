/** The directory whose files a request is about. */
import type { Kysely } from 'kysely';
import type { DirectoriesTable, Tables } from '../db/schema.ts';
import { BerthError } from '../errors.ts';
import type { Asker } from '../history/audit.ts';

export interface Target {
  readonly accountId: string;
  readonly id: string;
  /** The request behind a change, for the audit. */
  readonly asker: Asker | undefined;
}

const COLUMNS = [
  'id',
  'account_id',
  'external_id',
  'sftp_username',
  'uid',
  'storage_bytes',
  'quota_bytes',
] as const satisfies readonly (keyof DirectoriesTable)[];

export type TargetDirectory = Pick<DirectoriesTable, (typeof COLUMNS)[number]>;

/** @throws {BerthError} `directory_not_found`. */
export async function liveDirectory(
  db: Kysely<Tables>,
  { accountId, id }: Pick<Target, 'accountId' | 'id'>,
): Promise<TargetDirectory> {
  const directory = await db
    .selectFrom('directories')
    .select(COLUMNS)
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  if (!directory) throw new BerthError('directory_not_found', 'Directory not found');
  return directory;
}
