/** What differs when several machines may work on the database, as they may on PostgreSQL. */
import { type Kysely, type RawBuilder, sql } from 'kysely';
import { isPostgres } from './dialect.ts';
import type { Tables } from './schema.ts';

/** Whether other machines may write to it, too. */
function isShared(db: Kysely<Tables>): boolean {
  return isPostgres(db);
}

/**
 * The uid of the principal that an insert makes: one more than there was, from `first` on. Shared, it comes from an identity
 * (migration 006): machines that make principals at once do not wait for each other.
 */
export function nextUid(db: Kysely<Tables>, first: number): RawBuilder<number> {
  if (isShared(db)) return sql`default`;
  return sql`(select coalesce(max(uid), ${first - 1}) + 1 from principals)`;
}
