/**
 * Files of a directory found by their paths. SQLite's index has whole paths; PostgreSQL's has their beginnings and hashes (006), so
 * each condition also says where in the index to look. What is found is the same, in an order that may be the index's own.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely';
import { isPostgres } from './dialect.ts';
import type { Tables } from './schema.ts';

type Sql<T = unknown> = RawBuilder<T>;

const path = sql.ref('path');
const bytes = (value: Buffer): Sql => sql`${value}::bytea`;
// As 006 has them.
const beginning = (of: Sql): Sql => sql`substr(${of}, 1, 2000)`;
const key = (of: Sql): Sql => sql`${beginning(of)}, sha256(${of})`;

export function pathIs(db: Kysely<Tables>, value: Buffer): Sql<boolean> {
  return isPostgres(db) ? sql`(${key(path)}) = (${key(bytes(value))})` : sql`path = ${value}`;
}

/** From one path up to another and without that. */
export function pathWithin(db: Kysely<Tables>, from: Buffer, to: Buffer): Sql<boolean> {
  const within = sql<boolean>`path >= ${from} and path < ${to}`;
  if (!isPostgres(db)) return within;
  return sql`${beginning(path)} between ${beginning(bytes(from))} and ${beginning(bytes(to))} and ${within}`;
}

/** For `order by`: in the order of their bytes. */
export function byPath(db: Kysely<Tables>): Sql {
  return isPostgres(db) ? sql`${beginning(path)}, path` : path;
}

/** For `order by`: as the index has them, so that a page costs the same however many paths begin alike. */
export function byPathIndex(db: Kysely<Tables>): Sql {
  return isPostgres(db) ? key(path) : path;
}

/** In that order. */
export function pathAfter(db: Kysely<Tables>, value: Buffer): Sql<boolean> {
  return isPostgres(db) ? sql`(${key(path)}) > (${key(bytes(value))})` : sql`path > ${value}`;
}

/** Below `folder`, and after one of those if it is given, in that order. */
export function pathBelow(db: Kysely<Tables>, folder: Buffer, after: Buffer | undefined): Sql<boolean> {
  // '0' is the character after '/', so this is the end of everything that starts with `folder/`.
  const [from, to] = ['/', '0'].map((end) => Buffer.concat([folder, Buffer.from(end)])) as [Buffer, Buffer];
  if (after === undefined) return pathWithin(db, from, to);
  // Of two beginnings SQLite may take the wrong one.
  if (!isPostgres(db)) return sql`path > ${after} and path < ${to}`;
  return sql`${pathAfter(db, after)} and ${pathWithin(db, from, to)}`;
}
