/** Finds the directories that an administrator, or a user of the dashboard, names, live or deleted. */
import type { Kysely } from 'kysely';
import { OperatorError } from '../../foundation/base/errors.ts';
import type { Owner } from '../../foundation/db/lists.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { type DirectoryEntry, directoryPage, type Whose } from '../../rules/directories/view.ts';

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

/** A directory by its id or username. An id may be that of a deleted one, whose history remains. @param whose only one of these. */
export async function directoryNamed(
  reads: Kysely<Tables>,
  text: string,
  whose?: Whose,
): Promise<(Owner & { readonly directoryId: string }) | undefined> {
  const accountId = whose?.accountId;
  let live = reads
    .selectFrom('directories')
    .select(['account_id as accountId', 'id as directoryId'])
    .where((eb) => eb.or([eb('id', '=', text), eb('sftp_username', '=', text)]));
  if (accountId !== undefined) live = live.where('account_id', '=', accountId);
  const deleted = reads
    .selectFrom('audit')
    .select(['account_id as accountId', 'directory_id as directoryId'])
    .where('directory_id', '=', text)
    .limit(1);
  const found = (await live.executeTakeFirst()) ?? (text === '' ? undefined : await deleted.executeTakeFirst());
  const isTheirs =
    !whose || (found?.accountId === accountId && (whose.scope.directories?.has(found?.directoryId ?? '') ?? true));
  return isTheirs ? found : undefined;
}

/** The directory that a user means: by an id, a username, or a text that only one has; otherwise those that have it. */
export async function directoryMeant(
  reads: Kysely<Tables>,
  whose: Whose,
  text: string,
): Promise<{ readonly id: string } | { readonly candidates: readonly DirectoryEntry[] }> {
  const named = await directoryNamed(reads, text, whose);
  if (named) return { id: named.directoryId };
  const { rows } = await directoryPage(reads, whose, { search: text, order: 'name', isReversed: false });
  const [only] = rows;
  return rows.length === 1 && only ? { id: only.id } : { candidates: rows };
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
