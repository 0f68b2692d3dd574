/** Finds the live directories that an administrator may mean by a name. */
import type { Database } from '../db/open.ts';
import type { DirectoriesTable } from '../db/schema.ts';

const COLUMNS = ['id', 'account_id', 'sftp_username', 'external_id', 'slug', 'name'] as const;

export type NamedDirectory = Pick<DirectoriesTable, (typeof COLUMNS)[number]>;

/** A longer list would not help to choose. */
const MAX_LISTED = 50;

/** An id or a username names one directory, whatever other directories are called. Several may share another name. */
export async function directoriesNamed({ db }: Database, text: string, account?: string): Promise<NamedDirectory[]> {
  let live = db.selectFrom('directories').select(COLUMNS).where('deleted_at', 'is', null);
  if (account !== undefined) live = live.where('account_id', '=', account);
  const own = await live.where((eb) => eb.or([eb('id', '=', text), eb('sftp_username', '=', text)])).execute();
  if (own.length > 0) return own;
  return live
    .where((eb) => eb.or([eb('external_id', '=', text), eb('slug', '=', text), eb('name', '=', text)]))
    .orderBy('inserted_at')
    .orderBy('id')
    .limit(MAX_LISTED)
    .execute();
}
