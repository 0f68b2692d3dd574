/** How lists are read: in pages, from a place on, by a text, and how many rows they have. */
import { type Expression, type Kysely, type RawBuilder, sql } from 'kysely';
import type { Micros } from '../base/clock.ts';
import { UUID } from '../base/validation.ts';
import type { Tables } from './schema.ts';
import { isPostgres, listed } from './dialect.ts';
import { type ValidationError, wrongField } from '../base/errors.ts';

// Reads the rows of a table page by page, in the order of their ids.

/**
 * Yields pages until there are no more rows, or until `signal` aborts.
 * @param read returns the rows after an id, the first of them.
 */
export async function* pagesById<R extends { readonly id: string }>(
  read: (after: string) => R[] | Promise<R[]>,
  signal: AbortSignal,
): AsyncGenerator<R[], void> {
  for (let after = ''; !signal.aborted;) {
    const page = await read(after);
    const last = page.at(-1);
    if (!last) return;
    yield page;
    after = last.id;
  }
}

// What lists share: whose rows they have, and where a page begins. They are ordered by a time and an id, newest
// first.

/** A list has the rows of an account, or of one of its directories. */
export interface Owner {
  readonly accountId: string;
  readonly directoryId?: string | undefined;
}

/** Only one of the two conditions, so that the database has only one index to choose. */
export function ownedBy({ accountId, directoryId }: Owner, table: string): RawBuilder<boolean> {
  const [column, value] = directoryId === undefined ? ['account_id', accountId] : ['directory_id', directoryId];
  return sql<boolean>`${sql.ref(`${table}.${column}`)} = ${value}`;
}

/** The place of a row in a list. The row itself may have gone. */
export interface ListPlace {
  readonly at: Micros;
  readonly id: string;
}

/** A place as text: the time and the id. */
export const placeText = ({ at, id }: ListPlace): string => `${at}.${id}`;

/** Undefined when the text is not a place. */
export function placeIn(text = ''): ListPlace | undefined {
  const [, at, id = ''] = /^(\d{1,16})\.(.*)$/.exec(text) ?? [];
  return at !== undefined && UUID.test(id) ? { at: Number(at), id } : undefined;
}

const LISTS = {
  directories: { time: 'inserted_at', owner: 'account_id' },
  deliveries: { time: 'inserted_at', owner: 'directory_id' },
  files: { time: 'uploaded_at', owner: 'directory_id' },
} as const;

/** The place of a row that still exists, even if the list no longer shows it. */
export async function placeInList(
  reads: Kysely<Tables>,
  list: keyof typeof LISTS,
  owner: string,
  id: string,
): Promise<ListPlace> {
  const columns = LISTS[list];
  const { rows } = await sql<ListPlace>`
    select ${sql.ref(columns.time)} as at, id from ${sql.table(list)}
    where id = ${id} and ${sql.ref(columns.owner)} = ${owner}`.execute(reads);
  const [place] = rows;
  if (!place) throw unknownPlace();
  return place;
}

/** The error for an unknown place. An empty page would look like the end of the list. */
export function unknownPlace(): ValidationError {
  return wrongField('after', 'invalid');
}

// Finds directories with a text anywhere in their column `search`, which is in lower case, through an index on
// trigrams (005). SQLite's index is FTS5's, which needs a query of its own. PostgreSQL's is pg_trgm's, which works
// with `like`.

/** How many trigrams of a text are looked up. A directory that has this many of them most likely has all. */
const LOOKED_UP = 30;

/** Whether `search` contains the text. SQLite's `glob` and `like` take a hundred times as long for a text that repeats itself. */
export function contains(db: Kysely<Tables>, text: string): RawBuilder<boolean> {
  if (isPostgres(db)) return sql`search like ${`%${lower(text).replace(/[\\%_]/g, String.raw`\$&`)}%`}`;
  return sql`instr(search, ${lower(text)}) > 0`;
}

/** Whether one of the columns contains the text. Upper and lower case of ASCII letters are equal. */
export function anyContains(db: Kysely<Tables>, columns: readonly string[], text: string): RawBuilder<boolean> {
  const position = isPostgres(db) ? sql`strpos` : sql`instr`;
  return anyOf(columns.map((column) => sql<boolean>`${position}(lower(${sql.ref(column)}), ${lower(text)}) > 0`));
}

/**
 * The uids of the directories of all accounts that may contain one of the texts or have it as their id. Undefined when
 * there are more than `limit`, or a text is too short to look up.
 */
export async function mayContain(
  reads: Kysely<Tables>,
  texts: readonly string[],
  limit: number,
): Promise<number[] | undefined> {
  const phrases = texts.map(trigramsOf);
  if (phrases.includes('')) return undefined;
  const having = isPostgres(reads)
    ? sql`select uid from directories where ${anyOf(texts.map((text) => contains(reads, text)))}`
    : sql`select rowid from directory_trigrams where directory_trigrams match ${phrases.join(' OR ')}`;
  const { rows } = await sql<{ uid: number }>`
    select uid from directories where id in (${sql.join(texts)})
    union all
    ${having}
    limit ${limit + 1}`.execute(reads);
  return rows.length > limit ? undefined : rows.map(({ uid }) => uid);
}

/**
 * Whether a directory belongs to the account and has one of the uids. The `+` keeps SQLite from reading all of the
 * account's directories.
 */
export function isAmong(db: Kysely<Tables>, accountId: string, uids: readonly number[]): RawBuilder<boolean> {
  const account = isPostgres(db) ? sql`account_id` : sql`+account_id`;
  return sql`${account} = ${accountId} and uid in (${listed(db, uids, 'bigint')})`;
}

function anyOf(conditions: readonly RawBuilder<boolean>[]): RawBuilder<boolean> {
  return sql`(${sql.join<boolean>(conditions, sql` or `)})`;
}

/** The FTS5 query for all trigrams; empty for a text of fewer than three characters. */
function trigramsOf(text: string): string {
  const letters = Array.from(lower(text));
  const all = letters.slice(2).map((last, index) => `${letters[index]}${letters[index + 1]}${last}`);
  // A zero byte would end the query's text. No name has one.
  const some = [...new Set(all)].filter((each) => !each.includes('\0')).slice(0, LOOKED_UP);
  return some.length === 0 ? '' : `(${some.map((each) => `"${each.replaceAll('"', '""')}"`).join(' ')})`;
}

/** Folds like the column `search`: SQLite's `lower` only knows ASCII. */
function lower(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

// Counts the rows of a query.

/** How many rows `some` has. With a limit in it, the count takes no longer than that. */
export async function countRows(reads: Kysely<Tables>, some: Expression<unknown>): Promise<number> {
  const { rows } = await sql<{ readonly count: number }>`select count(*) as count from ${some} as counted`.execute(
    reads,
  );
  return rows[0]?.count ?? 0;
}
