/**
 * Says which of the two databases a connection uses, for the few places in `db/` that have to know, and has the SQL
 * that differs.
 */
import { type Kysely, PostgresAdapter, type RawBuilder, sql } from 'kysely';

export function isPostgres<T>(db: Kysely<T>): boolean {
  return db.getExecutor().adapter instanceof PostgresAdapter;
}

/** These texts, for `in`: a subquery, so that the text of the query is the same for any number of them. */
export function among<T>(db: Kysely<T>, texts: readonly string[]): RawBuilder<string> {
  return sql`(${listed(db, texts, 'text')})`;
}

/** A subquery of these values, for `in (…)`. The text of the query is the same for any number of values. */
export function listed<T>(
  db: Kysely<T>,
  values: readonly string[] | readonly number[],
  type: 'text' | 'bigint',
): RawBuilder<unknown> {
  if (!isPostgres(db)) return sql`select value from json_each(${JSON.stringify(values)})`;
  return sql`select unnest(${values}::${sql.raw(type)}[])`;
}
