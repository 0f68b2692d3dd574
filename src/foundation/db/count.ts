/** Counts the rows of a query. */
import { type Expression, type Kysely, sql } from 'kysely';
import type { Tables } from './schema.ts';

/** How many rows `some` has. With a limit in it, the count takes no longer than that. */
export async function countRows(reads: Kysely<Tables>, some: Expression<unknown>): Promise<number> {
  const { rows } = await sql<{ readonly count: number }>`select count(*) as count from ${some} as counted`.execute(
    reads,
  );
  return rows[0]?.count ?? 0;
}
