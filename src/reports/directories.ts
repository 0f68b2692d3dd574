/** Directories, read for people. */
import type { Database } from '../db/open.ts';
import type { DirectoriesTable } from '../db/schema.ts';
import type { Filter } from './filter.ts';

/** No secret is among them. A webhook URL may hold one: see `destination`. */
const COLUMNS = [
  'id',
  'account_id',
  'name',
  'external_id',
  'sftp_username',
  'auth_mode',
  'max_connections',
  'retention_days',
  'storage_bytes',
  'webhook_url',
  'inserted_at',
  'updated_at',
] as const satisfies readonly (keyof DirectoriesTable)[];

export type DirectoryRow = Pick<DirectoriesTable, (typeof COLUMNS)[number]>;

/** The newest live directories, newest first. */
export async function listDirectories({ db }: Database, filter: Filter): Promise<DirectoryRow[]> {
  let query = db
    .selectFrom('directories')
    .select(COLUMNS)
    .where('deleted_at', 'is', null)
    .orderBy('inserted_at', 'desc')
    .orderBy('id', 'desc')
    .limit(filter.limit);
  if (filter.directory !== undefined) query = query.where('id', '=', filter.directory);
  if (filter.account !== undefined) query = query.where('account_id', '=', filter.account);
  if (filter.since !== undefined) query = query.where('inserted_at', '>=', filter.since);
  return query.execute();
}

/** The directory of a username, also while it is being deleted. */
export async function directoryOf({ db }: Database, username: string): Promise<DirectoryRow | undefined> {
  return db.selectFrom('directories').select(COLUMNS).where('sftp_username', '=', username).executeTakeFirst();
}
