/**
 * Puts the four tables of sums by day into one. With PostgreSQL the four tables stay: nodes with an older berth write to them in each
 * transaction that records uploads, and would drop the uploads without them.
 */
import { type Kysely, sql } from 'kysely';
import { isPostgres } from '../dialect.ts';

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('daily_totals')
    .addColumn('owner_id', 'text', (c) => c.notNull())
    .addColumn('kind', 'text', (c) => c.notNull())
    .addColumn('day', 'bigint', (c) => c.notNull())
    .addColumn('count', 'bigint', (c) => c.notNull())
    .addColumn('bytes', 'bigint', (c) => c.notNull())
    .addPrimaryKeyConstraint('daily_totals_pk', ['owner_id', 'kind', 'day'])
    .execute();
  await sql`
    insert into daily_totals (owner_id, kind, day, count, bytes)
    select account_id, 'uploads', day, uploads, bytes from daily_uploads
    union all select directory_id, 'uploads', day, uploads, bytes from directory_days
    union all select account_id, 'storage', day, 0, bytes from daily_storage
    union all select directory_id, 'storage', day, 0, stored from directory_days where stored is not null
    union all select account_id, 'refusals', day, refusals, 0 from daily_refusals`.execute(db);
  await db.schema.createIndex('daily_totals_by_day').on('daily_totals').column('day').execute();
  if (isPostgres(db)) return;
  for (const table of ['daily_uploads', 'daily_storage', 'daily_refusals', 'directory_days'])
    await db.schema.dropTable(table).execute();
}
