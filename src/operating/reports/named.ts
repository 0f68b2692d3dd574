/** Finds the directories that an administrator names, live or deleted. */
import { OperatorError } from '../../foundation/base/errors.ts';
import { UUID } from '../../foundation/base/validation.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { DirectoryRow } from '../../foundation/db/schema.ts';

const COLUMNS = ['id', 'account_id', 'sftp_username', 'external_id', 'slug', 'name'] as const;

export type NamedDirectory = Pick<DirectoryRow, (typeof COLUMNS)[number]>;

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

/**
 * The id of the directory that an administrator names by its id or its SFTP username. An id may be that of a deleted directory, whose
 * history remains.
 * @throws {OperatorError} when nothing has that name.
 */
export async function directoryNamed({ db }: Database, text: string): Promise<string> {
  const found = await db
    .selectFrom('directories')
    .select('id')
    .where((eb) => eb.or([eb('id', '=', text), eb('sftp_username', '=', text)]))
    .executeTakeFirst();
  if (found) return found.id;
  if (UUID.test(text)) return text;
  throw new OperatorError(`there is no directory ${JSON.stringify(text)}: see berth directory list`);
}

export interface Known {
  readonly id: string;
  readonly sftp_username: string;
  readonly account_id: string;
  /** Null for a deleted directory. */
  readonly name: string | null;
}

/** A live directory by any of its names, or a deleted one by its id or username. */
export async function directoryKnown(database: Database, name: string): Promise<Known | undefined> {
  const [live, ...others] = await directoriesNamed(database, name);
  const shown = JSON.stringify(name);
  if (others.length > 0)
    throw new OperatorError(`${others.length + 1} directories are called ${shown}: use an id or username`);
  return live ?? fromHistory(database, name);
}

async function fromHistory({ db }: Database, name: string): Promise<Known | undefined> {
  for (const table of ['audit', 'transfers'] as const) {
    const row = await db
      .selectFrom(table)
      .select(['directory_id as id', 'username as sftp_username', 'account_id'])
      .where((eb) => eb.or([eb('directory_id', '=', name), eb('username', '=', name)]))
      .orderBy('at', 'desc')
      .executeTakeFirst();
    if (row) return { ...row, name: null };
  }
  return undefined;
}
