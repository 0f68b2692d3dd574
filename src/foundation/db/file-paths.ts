/**
 * Conditions that find a directory's files by their paths. SQLite's index has whole paths; PostgreSQL's has their
 * beginnings and hashes (006), so there each condition also names the place in the index. The rows found are the same,
 * but their order may be that of the index.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely';
import { isPostgres } from './dialect.ts';
import type { Tables } from './schema.ts';

type Sql<T = unknown> = RawBuilder<T>;

const path = sql.ref('path');
const bytes = (value: Buffer): Sql => sql`${value}::bytea`;
// The expressions must be the same as in migration 006.
const beginning = (of: Sql): Sql => sql`substr(${of}, 1, 2000)`;
const key = (of: Sql): Sql => sql`${beginning(of)}, sha256(${of})`;

export function pathIs(db: Kysely<Tables>, value: Buffer): Sql<boolean> {
  return isPostgres(db) ? sql`(${key(path)}) = (${key(bytes(value))})` : sql`path = ${value}`;
}

/** Paths from `from` (inclusive) to `to` (exclusive). */
export function pathWithin(db: Kysely<Tables>, from: Buffer, to: Buffer): Sql<boolean> {
  const within = sql<boolean>`path >= ${from} and path < ${to}`;
  if (!isPostgres(db)) return within;
  return sql`${beginning(path)} between ${beginning(bytes(from))} and ${beginning(bytes(to))} and ${within}`;
}

/** For `order by`: paths in the order of their bytes. */
export function byPath(db: Kysely<Tables>): Sql {
  return isPostgres(db) ? sql`${beginning(path)}, path` : path;
}

/** For `order by`: paths in the order of the index, so that a page costs the same however many paths begin alike. */
export function byPathIndex(db: Kysely<Tables>): Sql {
  return isPostgres(db) ? key(path) : path;
}

/** Paths after `value` in the order of the index. */
export function pathAfter(db: Kysely<Tables>, value: Buffer): Sql<boolean> {
  return isPostgres(db) ? sql`(${key(path)}) > (${key(bytes(value))})` : sql`path > ${value}`;
}

/** Paths below `folder` and, if given, after `after`, in the order of the index. */
export function pathBelow(db: Kysely<Tables>, folder: Buffer, after: Buffer | undefined): Sql<boolean> {
  // '0' is the character after '/', so this is the end of everything that starts with `folder/`.
  const [from, to] = ['/', '0'].map((end) => Buffer.concat([folder, Buffer.from(end)])) as [Buffer, Buffer];
  if (after === undefined) return pathWithin(db, from, to);
  // Given two lower bounds, SQLite may use the wrong one for the index.
  if (!isPostgres(db)) return sql`path > ${after} and path < ${to}`;
  return sql`${pathAfter(db, after)} and ${pathWithin(db, from, to)}`;
}
