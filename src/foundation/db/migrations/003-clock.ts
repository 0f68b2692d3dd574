/** Remembers the last known wall time, so that a start notices when the clock has jumped. */
import { type Kysely, sql } from 'kysely';

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('clock')
    .addColumn('seen_at', 'bigint', (c) => c.notNull())
    .addColumn('lead', 'bigint', (c) => c.notNull())
    .execute();
  await sql`insert into clock (seen_at, lead) values (0, 0)`.execute(db);
}
