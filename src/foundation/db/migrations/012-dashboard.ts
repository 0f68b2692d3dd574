/** What the dashboard's charts of a directory and its list of all deliveries read from. */
import { type Kysely, sql } from 'kysely';

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('directory_days')
    .addColumn('directory_id', 'text', (c) => c.notNull())
    .addColumn('day', 'bigint', (c) => c.notNull())
    .addColumn('uploads', 'bigint', (c) => c.notNull())
    .addColumn('bytes', 'bigint', (c) => c.notNull())
    .addColumn('stored', 'bigint')
    .addPrimaryKeyConstraint('directory_days_pk', ['directory_id', 'day'])
    .execute();
  await db.schema.createIndex('directory_days_by_day').on('directory_days').column('day').execute();
  await sql`
    insert into directory_days (directory_id, day, uploads, bytes)
    select directory_id, at - at % 86400000000, count(*), coalesce(sum(bytes), 0)
    from transfers where event = 'uploaded' group by 1, 2`.execute(db);

  // All deliveries of an account, newest first, and those that have failed or are open.
  const columns = ['account_id', 'inserted_at', 'id'];
  await db.schema.createIndex('deliveries_of_account').on('deliveries').columns(columns).execute();
  for (const [name, isInState] of [
    ['failed', sql<boolean>`state = 'failed'`],
    ['open', sql<boolean>`state in ('queued', 'running', 'waiting')`],
  ] as const)
    await db.schema
      .createIndex(`deliveries_${name}_of_account`)
      .on('deliveries')
      .columns(columns)
      .where(isInState)
      .execute();
}
