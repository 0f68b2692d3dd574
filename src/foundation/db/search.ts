/**
 * Finds directories with a text anywhere in their column `search`, which is in lower case, through an index on trigrams
 * (005). SQLite's index is FTS5's, which needs a query of its own. PostgreSQL's is pg_trgm's, which works with `like`.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely';
import { isPostgres, listed } from './dialect.ts';
import type { Tables } from './schema.ts';

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
