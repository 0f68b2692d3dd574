/**
 * The list of directories: searched, in one of its orders, a page at a time, forward and backward. Each order walks an
 * index that holds what is searched, so a page costs the same wherever it is. A search that finds few sorts those alone;
 * one that finds many comes to a page of them soon.
 */
import type { Kysely } from 'kysely';
import type { Micros } from '../../base/clock.ts';
import type { DirectoriesTable, Tables } from '../../db/schema.ts';
import { contains, isAmong, mayContain } from '../../db/search.ts';
import { slugOf } from '../../directories/identity.ts';

export const PAGE = 50;

/** Directories that are sorted for a page. */
export const FEW = 1000;

/** Each order's column, and whether its natural direction is downward. */
export const ORDERS = {
  name: { column: 'search', isDown: false },
  storage: { column: 'storage_bytes', isDown: true },
  upload: { column: 'last_upload_at', isDown: true },
  created: { column: 'inserted_at', isDown: true },
} as const;

export type Order = keyof typeof ORDERS;

/** A place between two rows: that of a row which need not be there any more. */
export interface Place {
  readonly key: string | number;
  readonly id: string;
}

export interface Listing {
  readonly search: string;
  readonly order: Order;
  readonly isReversed: boolean;
  readonly after?: Place | undefined;
  readonly before?: Place | undefined;
}

export interface ListedDirectory extends Pick<
  DirectoriesTable,
  'id' | 'name' | 'sftp_username' | 'storage_bytes' | 'suspended' | 'expires_at' | 'inserted_at'
> {
  readonly last_upload_at: Micros;
}

export interface DirectoryPage {
  readonly rows: readonly ListedDirectory[];
  /** Where the pages beside this one begin; undefined at an end. */
  readonly previous: Place | undefined;
  readonly next: Place | undefined;
}

export async function directoryPage(
  reads: Kysely<Tables>,
  accountId: string,
  { search, order, isReversed, after, before }: Listing,
): Promise<DirectoryPage> {
  const { column, isDown } = ORDERS[order];
  const isBackward = before !== undefined;
  const isDownward = (isDown !== isReversed) !== isBackward;
  const direction = isDownward ? 'desc' : 'asc';
  const from = before ?? after;
  const texts = textsOf(search);
  const few = search === '' ? undefined : await mayContain(reads, texts, FEW);
  let query = reads
    .selectFrom('directories')
    .select(['id', 'name', 'sftp_username', 'storage_bytes', 'suspended', 'expires_at', 'inserted_at'])
    .select(['last_upload_at', `${column} as key`])
    .where((eb) => (few ? isAmong(reads, accountId, few) : eb('account_id', '=', accountId)))
    .where('deleted_at', 'is', null)
    .orderBy(column, direction)
    .orderBy('id', direction)
    .limit(PAGE + 1);
  if (search !== '')
    query = query.where(({ eb, or }) => or([eb('id', '=', search), ...texts.map((text) => contains(reads, text))]));
  if (from)
    query = query.where(({ eb, refTuple, tuple }) =>
      eb(refTuple(column, 'id'), isDownward ? '<' : '>', tuple(from.key, from.id)),
    );
  const some = await query.execute();
  // Fewer are left before this page than fit on one: then it is the first.
  if (isBackward && some.length < PAGE) return directoryPage(reads, accountId, { search, order, isReversed });
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

/** A text without any character of a slug. */
const NO_SLUG = slugOf('');

/**
 * Sought anywhere in the name, slug, username and external id. Only ASCII is found in either case; a name of other letters
 * by its slug, too, which has them in ASCII.
 */
function textsOf(search: string): string[] {
  const slug = /[^\p{ASCII}]/u.test(search) ? slugOf(search) : NO_SLUG;
  return slug === NO_SLUG ? [search] : [search, slug];
}
