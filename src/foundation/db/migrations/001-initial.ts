/** The first schema: accounts, directories, the files in them, and the webhook outbox. */
import { type Kysely, sql } from 'kysely';

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('accounts')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('plan', 'text', (c) => c.notNull().check(sql`plan in ('free', 'starter', 'pro', 'business')`))
    .addColumn('inserted_at', 'bigint', (c) => c.notNull())
    .execute();

  await db.schema
    .createTable('api_keys')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('account_id', 'text', (c) => c.notNull().references('accounts.id'))
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('role', 'text', (c) => c.notNull().check(sql`role in ('admin', 'member')`))
    .addColumn('hash', 'text', (c) => c.notNull().unique())
    .addColumn('inserted_at', 'bigint', (c) => c.notNull())
    .addColumn('last_used_at', 'bigint')
    .addColumn('revoked_at', 'bigint')
    .execute();
  await db.schema.createIndex('api_keys_by_account').on('api_keys').columns(['account_id', 'inserted_at']).execute();

  await db.schema
    .createTable('principals')
    .addColumn('uid', 'integer', (c) => c.primaryKey())
    .addColumn('username', 'text', (c) => c.notNull().unique())
    .execute();

  await db.schema
    .createTable('directories')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('account_id', 'text', (c) => c.notNull().references('accounts.id'))
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('description', 'text')
    .addColumn('slug', 'text', (c) => c.notNull())
    .addColumn('external_id', 'text')
    .addColumn('metadata', 'text', (c) => c.notNull())
    .addColumn('sftp_host', 'text', (c) => c.notNull())
    .addColumn('sftp_port', 'integer', (c) => c.notNull())
    .addColumn('sftp_username', 'text', (c) => c.notNull().unique().references('principals.username'))
    .addColumn('uid', 'integer', (c) => c.notNull().unique().references('principals.uid'))
    .addColumn('password_hash', 'text', (c) => c.notNull())
    .addColumn('webhook_url', 'text')
    .addColumn('webhook_secret', 'text', (c) => c.notNull())
    .addColumn('max_connections', 'integer', (c) => c.notNull())
    .addColumn('storage_bytes', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('retention_days', 'integer', (c) => c.notNull())
    .addColumn('auth_mode', 'text', (c) => c.notNull().check(sql`auth_mode in ('password', 'public_key', 'both')`))
    .addColumn('public_key', 'text')
    .addColumn('public_key_fingerprint', 'text')
    .addColumn('inserted_at', 'bigint', (c) => c.notNull())
    .addColumn('updated_at', 'bigint', (c) => c.notNull())
    .addColumn('deleted_at', 'bigint')
    .execute();
  // Both lists are read newest first, straight from their index.
  await db.schema
    .createIndex('directories_by_account')
    .on('directories')
    .columns(['account_id', 'inserted_at', 'id'])
    .where(sql.ref('deleted_at'), 'is', null)
    .execute();
  await db.schema
    .createIndex('directories_by_external_id')
    .on('directories')
    .columns(['account_id', 'external_id', 'inserted_at', 'id'])
    .where(sql.ref('deleted_at'), 'is', null)
    .execute();
  await db.schema
    .createIndex('directories_with_retention')
    .on('directories')
    .column('id')
    .where(sql.ref('retention_days'), '>', sql.lit(0))
    .execute();

  await db.schema
    .createTable('unapplied')
    .addColumn('directory_id', 'text', (c) => c.primaryKey())
    .execute();

  await db.schema
    .createTable('files')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('directory_id', 'text', (c) => c.notNull().references('directories.id'))
    .addColumn('path', 'blob', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull().check(sql`state in ('uploaded', 'waiting', 'partial')`))
    .addColumn('uploaded_at', 'bigint', (c) => c.notNull())
    .addColumn('inode', 'bigint', (c) => c.notNull())
    .addColumn('mtime', 'bigint', (c) => c.notNull())
    .addColumn('source', 'text', (c) => c.notNull().check(sql`source in ('log', 'disk')`))
    .addColumn('session_pid', 'integer')
    .addUniqueConstraint('files_by_path', ['directory_id', 'path'])
    .execute();
  await db.schema.createIndex('files_by_inode').on('files').columns(['directory_id', 'inode']).execute();
  await db.schema.createIndex('files_by_age').on('files').columns(['directory_id', 'uploaded_at', 'id']).execute();
  await db.schema
    .createIndex('files_waiting')
    .on('files')
    .columns(['directory_id', 'session_pid'])
    .where(sql.ref('state'), '=', sql.lit('waiting'))
    .execute();

  await db.schema
    .createTable('deliveries')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('directory_id', 'text', (c) => c.notNull())
    .addColumn('account_id', 'text', (c) => c.notNull())
    .addColumn('url', 'text', (c) => c.notNull())
    .addColumn('destination', 'text', (c) => c.notNull())
    .addColumn('body', 'blob', (c) => c.notNull())
    .addColumn('signature', 'text', (c) => c.notNull())
    .addColumn('state', 'text', (c) =>
      c.notNull().check(sql`state in ('queued', 'running', 'waiting', 'delivered', 'failed')`),
    )
    .addColumn('attempts', 'integer', (c) =>
      c
        .notNull()
        .defaultTo(0)
        .check(sql`attempts between 0 and 4`),
    )
    .addColumn('inserted_at', 'bigint', (c) => c.notNull())
    .addColumn('due_at', 'bigint')
    .addColumn('finished_at', 'bigint')
    .execute();
  // To find the next destination, a query skips from one to the next, so a long queue of one costs the others nothing.
  await db.schema
    .createIndex('deliveries_queued')
    .on('deliveries')
    .columns(['destination', 'due_at'])
    .where(sql.ref('state'), '=', sql.lit('queued'))
    .execute();
  // Deliveries that become due as time passes: retries, and attempts whose process died.
  await db.schema
    .createIndex('deliveries_timed')
    .on('deliveries')
    .column('due_at')
    .where(sql.ref('state'), 'in', sql`('running', 'waiting')`)
    .execute();
  await db.schema
    .createIndex('deliveries_by_directory')
    .on('deliveries')
    .columns(['directory_id', 'inserted_at'])
    .execute();

  await db.schema
    .createTable('attempts')
    .addColumn('delivery_id', 'text', (c) => c.notNull().references('deliveries.id').onDelete('cascade'))
    .addColumn('number', 'integer', (c) => c.notNull().check(sql`number between 1 and 4`))
    .addColumn('started_at', 'bigint', (c) => c.notNull())
    .addColumn('finished_at', 'bigint')
    .addColumn('status', 'integer')
    .addColumn('latency_us', 'bigint')
    .addColumn('error', 'text')
    .addColumn('response', 'blob')
    .addPrimaryKeyConstraint('attempts_pk', ['delivery_id', 'number'])
    .execute();
}
