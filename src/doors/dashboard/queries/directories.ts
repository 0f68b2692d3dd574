/**
 * The list of directories: searched, sorted, and read in pages, forward and backward. Each order reads an index that contains
 * the searched columns, so every page costs the same. A search with few results sorts only those; a search with many results
 * fills a page soon.
 */
import type { Kysely } from 'kysely';
import type { Micros } from '../../../foundation/base/clock.ts';
import type { DirectoryRow, Tables } from '../../../foundation/db/schema.ts';
import { among } from '../../../foundation/db/dialect.ts';
import { contains, isAmong, mayContain } from '../../../foundation/db/lists.ts';
import { slugOf } from '../../../rules/directories/identity.ts';
import type { Principal } from '../../../rules/keys/authenticate.ts';

export const PAGE = 50;

/** A search with at most this many results sorts all of them. */
export const FEW = 1000;

/** Each order's column, and whether it is descending unless reversed. */
export const ORDERS = {
  name: { column: 'search', isDown: false },
  storage: { column: 'storage_bytes', isDown: true },
  upload: { column: 'last_upload_at', isDown: true },
  created: { column: 'inserted_at', isDown: true },
} as const;

export type Order = keyof typeof ORDERS;

/** The place of a row in the list. The row itself may have gone. */
export interface SortedPlace {
  readonly key: string | number;
  readonly id: string;
}

export interface Listing {
  readonly search: string;
  readonly order: Order;
  readonly isReversed: boolean;
  readonly after?: SortedPlace | undefined;
  readonly before?: SortedPlace | undefined;
}

export interface DirectoryEntry extends Pick<
  DirectoryRow,
  | 'id'
  | 'name'
  | 'sftp_username'
  | 'storage_bytes'
  | 'suspended'
  | 'expires_at'
  | 'auth_mode'
  | 'public_key'
  | 'inserted_at'
> {
  readonly last_upload_at: Micros;
}

export interface DirectoryPage {
  readonly rows: readonly DirectoryEntry[];
  /** Where the previous and the next page begin; undefined at the ends of the list. */
  readonly previous: SortedPlace | undefined;
  readonly next: SortedPlace | undefined;
}

/** For whom directories are searched: those of the account, or those that the user is limited to. */
type Whose = Pick<Principal, 'accountId' | 'scope'>;

export async function directoryPage(
  reads: Kysely<Tables>,
  whose: Whose,
  { search, order, isReversed, after, before }: Listing,
): Promise<DirectoryPage> {
  const { accountId, scope } = whose;
  const { column, isDown } = ORDERS[order];
  const isBackward = before !== undefined;
  const isDownward = (isDown !== isReversed) !== isBackward;
  const direction = isDownward ? 'desc' : 'asc';
  const from = before ?? after;
  const texts = textsOf(search);
  const few = search === '' ? undefined : await mayContain(reads, texts, FEW);
  let query = reads
    .selectFrom('directories')
    .select(['id', 'name', 'sftp_username', 'storage_bytes', 'suspended', 'expires_at', 'auth_mode', 'public_key'])
    .select(['inserted_at', 'last_upload_at', `${column} as key`])
    .where((eb) => (few ? isAmong(reads, accountId, few) : eb('account_id', '=', accountId)))
    .where('deleted_at', 'is', null)
    .orderBy(column, direction)
    .orderBy('id', direction)
    .limit(PAGE + 1);
  if (scope.directories) query = query.where('id', 'in', among(reads, [...scope.directories]));
  if (search !== '')
    query = query.where(({ eb, or }) => or([eb('id', '=', search), ...texts.map((text) => contains(reads, text))]));
  if (from)
    query = query.where(({ eb, refTuple, tuple }) =>
      eb(refTuple(column, 'id'), isDownward ? '<' : '>', tuple(from.key, from.id)),
    );
  const some = await query.execute();
  // If fewer rows are left before this page than fit on one, the first page is shown.
  if (isBackward && some.length < PAGE) return directoryPage(reads, whose, { search, order, isReversed });
  const rows = some.slice(0, PAGE);
  if (isBackward) rows.reverse();
  const first = rows.at(0);
  const last = rows.at(-1);
  const isMore = some.length > PAGE;
  return {
    rows,
    previous: (isBackward ? isMore : after !== undefined) ? first : undefined,
    next: isBackward || isMore ? last : undefined,
  };
}

/** An id that no directory has: a page that shows the deliveries or the history of that one shows none. */
export const NO_DIRECTORY = 'none';

/**
 * The directory that a person means by an id, a username, or a text that only one directory has; otherwise those that have it.
 * An id is also found after the directory was deleted.
 */
export async function directoryMeant(
  reads: Kysely<Tables>,
  whose: Whose,
  text: string,
): Promise<{ readonly id: string } | { readonly candidates: readonly DirectoryEntry[] }> {
  const id = await directoryNamed(reads, whose, text);
  if (id !== undefined) return { id };
  const { rows } = await directoryPage(reads, whose, { search: text, order: 'name', isReversed: false });
  const [only] = rows;
  return rows.length === 1 && only ? { id: only.id } : { candidates: rows };
}

/** Finds a directory by its id or username. */
export async function directoryNamed(
  reads: Kysely<Tables>,
  { accountId, scope }: Whose,
  text: string,
): Promise<string | undefined> {
  const id = await anyNamed(reads, accountId, text);
  return id !== undefined && (scope.directories?.has(id) ?? true) ? id : undefined;
}

async function anyNamed(reads: Kysely<Tables>, accountId: string, text: string): Promise<string | undefined> {
  const directory = await reads
    .selectFrom('directories')
    .select('id')
    .where((eb) => eb.or([eb('id', '=', text), eb('sftp_username', '=', text)]))
    .where('account_id', '=', accountId)
    .executeTakeFirst();
  if (directory) return directory.id;
  const deleted = reads.selectFrom('audit').select(['account_id', 'directory_id']).where('directory_id', '=', text);
  const row = await deleted.limit(1).executeTakeFirst();
  return row?.account_id === accountId ? (row.directory_id ?? undefined) : undefined;
}

/** The slug of a text that has no characters for one. */
const NO_SLUG = slugOf('');

/**
 * The texts to search for in name, slug, username and external id. Upper and lower case are equal for ASCII letters only. A text
 * with other letters is also searched by its slug, which has them in ASCII.
 */
function textsOf(search: string): string[] {
  const slug = /[^\p{ASCII}]/u.test(search) ? slugOf(search) : NO_SLUG;
  return slug === NO_SLUG ? [search] : [search, slug];
}
