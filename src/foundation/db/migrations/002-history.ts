/**
 * The history of transfers, the audit of API changes, and indexes for cheap figures about the outbox: how much waits and since when,
 * and what is old enough to be removed.
 */
import { type Kysely, sql } from 'kysely';

export async function up(db: Kysely<unknown>): Promise<void> {
  // Without foreign keys: the history of a directory outlives it.
  await db.schema
    .createTable('transfers')
    .addColumn('id', 'integer', (c) => c.primaryKey().autoIncrement())
    .addColumn('at', 'bigint', (c) => c.notNull())
    .addColumn('event', 'text', (c) => c.notNull())
    .addColumn('directory_id', 'text', (c) => c.notNull())
    .addColumn('account_id', 'text', (c) => c.notNull())
    .addColumn('username', 'text', (c) => c.notNull())
    .addColumn('address', 'text')
    .addColumn('session_pid', 'integer')
    .addColumn('path', 'text')
    .addColumn('from_path', 'text')
    .addColumn('bytes', 'bigint')
    .addColumn('began_at', 'bigint')
    .execute();
  await db.schema.createIndex('transfers_by_age').on('transfers').column('at').execute();
  await db.schema.createIndex('transfers_by_directory').on('transfers').columns(['directory_id', 'at']).execute();

  await db.schema
    .createTable('audit')
    .addColumn('id', 'integer', (c) => c.primaryKey().autoIncrement())
    .addColumn('at', 'bigint', (c) => c.notNull())
    .addColumn('action', 'text', (c) => c.notNull())
    .addColumn('account_id', 'text', (c) => c.notNull())
    .addColumn('key_id', 'text', (c) => c.notNull())
    .addColumn('request_id', 'text', (c) => c.notNull())
    .addColumn('route', 'text', (c) => c.notNull())
    .addColumn('directory_id', 'text', (c) => c.notNull())
    .addColumn('username', 'text', (c) => c.notNull())
    .addColumn('changes', 'text', (c) => c.notNull())
    .execute();
  await db.schema.createIndex('audit_by_age').on('audit').column('at').execute();
  await db.schema.createIndex('audit_by_directory').on('audit').columns(['directory_id', 'at']).execute();

  await db.schema.createIndex('deliveries_by_age').on('deliveries').column('inserted_at').execute();
  await db.schema
    .createIndex('deliveries_open')
    .on('deliveries')
    .columns(['state', 'inserted_at'])
    .where(sql.ref('state'), 'in', sql`('queued', 'running', 'waiting')`)
    .execute();
  await db.schema
    .createIndex('deliveries_failed')
    .on('deliveries')
    .column('inserted_at')
    .where(sql.ref('state'), '=', sql.lit('failed'))
    .execute();
  await db.schema
    .createIndex('files_partial')
    .on('files')
    .column('directory_id')
    .where(sql.ref('state'), '=', sql.lit('partial'))
    .execute();
}
