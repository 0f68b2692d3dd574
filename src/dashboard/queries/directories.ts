/**
 * The list of directories: searched, in one of its orders, a page at a time, forward and backward. Each order walks an
 * index that holds what is searched, so a page costs the same wherever it is, and a search looks at each entry once at most.
 */
import { type Kysely, sql } from 'kysely';
import type { Micros } from '../../clock.ts';
import type { DirectoriesTable, Tables } from '../../db/schema.ts';
import { slugOf } from '../../directories/identity.ts';

export const PAGE = 50;

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
  let query = reads
    .selectFrom('directories')
    .select(['id', 'name', 'sftp_username', 'storage_bytes', 'suspended', 'expires_at', 'inserted_at'])
    .select(['last_upload_at', `${column} as key`])
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .orderBy(column, direction)
    .orderBy('id', direction)
    .limit(PAGE + 1);
  if (search !== '') query = query.where(({ or }) => or(found(search)));
  if (from)
    query = query.where(({ eb, refTuple, tuple }) =>
      eb(refTuple(column, 'id'), isDownward ? '<' : '>', tuple(from.key, from.id)),
    );
  const some = await query.execute();
  // Fewer are left before this page than fit on one: then it is the first.
  if (isBackward && some.length < PAGE) return directoryPage(reads, accountId, { search, order, isReversed });
  const rows = some.slice(0, PAGE);
  if (isBackward) rows.reverse();
  const [first, last] = [rows.at(0), rows.at(-1)];
  const isMore = some.length > PAGE;
  return {
    rows,
    previous: (isBackward ? isMore : after !== undefined) ? first : undefined,
    next: isBackward || isMore ? last : undefined,
  };
}

/** Of a text that has nothing of a slug in it. */
const NO_SLUG = slugOf('');

/**
 * Anywhere in its name, slug, username or external id, or its whole id. Only ASCII is found in either case; a name of other
 * letters by its slug, too, which has them in ASCII.
 */
function found(text: string) {
  const slug = /[^\p{ASCII}]/u.test(text) ? slugOf(text) : NO_SLUG;
  const texts = slug === NO_SLUG ? [text] : [text, slug];
  const conditions = texts.map((each) => sql<boolean>`search glob ${`*${literally(each)}*`}`);
  return /^[\da-f-]{36}$/.test(text) ? [...conditions, sql<boolean>`id = ${text}`] : conditions;
}

/** For `glob`, which takes a quarter less time than `like`; `search` is in lower case already. */
function literally(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase()).replace(/[*?[]/g, '[$&]');
}
