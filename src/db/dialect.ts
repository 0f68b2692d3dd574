/** Which of the two databases a connection speaks to, for the few places in `db/` that have to know. */
import { type Kysely, PostgresAdapter } from 'kysely';

export function isPostgres<T>(db: Kysely<T>): boolean {
  return db.getExecutor().adapter instanceof PostgresAdapter;
}
