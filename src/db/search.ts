/**
 * Directories with a text anywhere in `search`, which is in lower case, found by an index of trigrams (005): in SQLite by one
 * of FTS5, which is asked by itself, in PostgreSQL by one of pg_trgm, which `like` uses.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely';
import { isPostgres, listed } from './dialect.ts';
import type { Tables } from './schema.ts';

/** Trigrams of a text that are looked up: a directory that has so many of them likely has all. */
const LOOKED_UP = 30;

/** Whether `search` has it. In SQLite `glob` takes a quarter less time than `like`. */
export function contains(db: Kysely<Tables>, text: string): RawBuilder<boolean> {
  if (isPostgres(db)) return sql`search like ${`%${lower(text).replace(/[\\%_]/g, String.raw`\$&`)}%`}`;
  return sql`search glob ${`*${lower(text).replace(/[*?[]/g, '[$&]')}*`}`;
}

/**
 * The uids of all directories, of any account, that may have one of the texts or have it for their id. Undefined when they
 * are more than `limit`, or a text is too short to tell.
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

/** Directories of that account that are among these. By the `+`, SQLite does not look at all of the account's. */
export function isAmong(db: Kysely<Tables>, accountId: string, uids: readonly number[]): RawBuilder<boolean> {
  const account = isPostgres(db) ? sql`account_id` : sql`+account_id`;
  return sql`${account} = ${accountId} and uid in (${listed(db, uids, 'bigint')})`;
}

function anyOf(conditions: readonly RawBuilder<boolean>[]): RawBuilder<boolean> {
  return sql.join<boolean>(conditions, sql` or `);
}

/** As FTS5 asks for all of them; empty for a text of less than three characters. */
function trigramsOf(text: string): string {
  const letters = Array.from(lower(text));
  const all = letters.slice(2).map((last, index) => `${letters[index]}${letters[index + 1]}${last}`);
  // A zero byte would end the text; no name has one.
  const some = [...new Set(all)].filter((each) => !each.includes('\0')).slice(0, LOOKED_UP);
  return some.length === 0 ? '' : `(${some.map((each) => `"${each.replaceAll('"', '""')}"`).join(' ')})`;
}

/** As `search` is: of other letters, SQLite's `lower` knows nothing. */
function lower(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}
