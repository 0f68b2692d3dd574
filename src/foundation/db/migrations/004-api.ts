/**
 * Several public keys, suspension, expiry, networks, quotas, webhook secrets in two steps, replays, files that were put for the
 * customer, and the answers kept for an Idempotency-Key.
 */
import { type Kysely, sql } from 'kysely';
import { isPostgres } from '../dialect.ts';

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('accounts').addColumn('deleted_at', 'bigint').execute();
  await db.schema.alterTable('accounts').addColumn('deleted_by', 'text').execute();

  for (const [column, type] of [
    ['suspended', sql`integer not null default 0`],
    ['expires_at', sql`bigint`],
    ['allowed_networks', sql`text not null default '[]'`],
    ['quota_bytes', sql`bigint`],
    ['next_webhook_secret', sql`text`],
  ] as const)
    await db.schema.alterTable('directories').addColumn(column, type).execute();
  await db.schema
    .createIndex('directories_expiring')
    .on('directories')
    .column('expires_at')
    .where(sql.ref('expires_at'), 'is not', null)
    .execute();

  await db.schema
    .createTable('public_keys')
    .addColumn('directory_id', 'text', (c) => c.notNull().references('directories.id').onDelete('cascade'))
    .addColumn('fingerprint', 'text', (c) => c.notNull())
    .addColumn('type', 'text', (c) => c.notNull())
    .addColumn('comment', 'text')
    .addColumn('line', 'text', (c) => c.notNull())
    .addColumn('inserted_at', 'bigint', (c) => c.notNull())
    .addColumn('last_used_at', 'bigint')
    .addPrimaryKeyConstraint('public_keys_pk', ['directory_id', 'fingerprint'])
    .execute();
  // Only for SQLite: a PostgreSQL database starts with this schema, so it has no keys yet.
  if (!isPostgres(db))
    await sql`
    insert into public_keys (directory_id, fingerprint, type, line, inserted_at)
    select id, public_key_fingerprint, substr(public_key, 1, instr(public_key, ' ') - 1), public_key, updated_at
    from directories where public_key is not null`.execute(db);

  await db.schema.alterTable('deliveries').addColumn('upload_id', 'text').execute();
  await db.schema.alterTable('deliveries').addColumn('replay_at', 'bigint').execute();
  await db.schema.alterTable('deliveries').addColumn('replayed_as', 'text').execute();
  // A delivery is now signed at each attempt, with the secret of that moment.
  await db.schema.alterTable('deliveries').dropColumn('signature').execute();
  await db.schema
    .createIndex('deliveries_to_replay')
    .on('deliveries')
    .columns(['directory_id', 'inserted_at'])
    .where(sql.ref('replay_at'), 'is not', null)
    .execute();
  await db.schema
    .createIndex('deliveries_failed_of')
    .on('deliveries')
    .columns(['directory_id', 'inserted_at'])
    .where(sql.ref('state'), '=', sql.lit('failed'))
    .execute();

  await db.schema
    .createTable('placements')
    .addColumn('directory_id', 'text', (c) => c.notNull().references('directories.id').onDelete('cascade'))
    .addColumn('inode', 'bigint', (c) => c.notNull())
    .addColumn('mtime', 'bigint', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addColumn('inserted_at', 'bigint', (c) => c.notNull())
    .addPrimaryKeyConstraint('placements_pk', ['directory_id', 'inode'])
    .execute();
  await allowPlacedFiles(db);

  await db.schema
    .createTable('kept_answers')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('account_id', 'text', (c) => c.notNull())
    .addColumn('request', 'text', (c) => c.notNull())
    .addColumn('answer', 'blob', (c) => c.notNull())
    .addColumn('inserted_at', 'bigint', (c) => c.notNull())
    .execute();
  await db.schema.createIndex('kept_answers_by_age').on('kept_answers').column('inserted_at').execute();
}

/** Adds a state for files. SQLite cannot change a constraint, so the table is rebuilt as 001 and 002 left it. */
async function allowPlacedFiles(db: Kysely<unknown>): Promise<void> {
  if (isPostgres(db)) {
    const states = sql`state in ('uploaded', 'waiting', 'partial', 'placed')`;
    await db.schema.alterTable('files').dropConstraint('files_state_check').execute();
    await db.schema.alterTable('files').addCheckConstraint('files_state_check', states).execute();
    return;
  }
  await db.schema
    .createTable('files_004')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('directory_id', 'text', (c) => c.notNull().references('directories.id'))
    .addColumn('path', 'blob', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull().check(sql`state in ('uploaded', 'waiting', 'partial', 'placed')`))
    .addColumn('uploaded_at', 'bigint', (c) => c.notNull())
    .addColumn('inode', 'bigint', (c) => c.notNull())
    .addColumn('mtime', 'bigint', (c) => c.notNull())
    .addColumn('source', 'text', (c) => c.notNull().check(sql`source in ('log', 'disk')`))
    .addColumn('session_pid', 'integer')
    .addUniqueConstraint('files_by_path', ['directory_id', 'path'])
    .execute();
  await sql`insert into files_004 select * from files`.execute(db);
  await db.schema.dropTable('files').execute();
  await db.schema.alterTable('files_004').renameTo('files').execute();
  await db.schema.createIndex('files_by_inode').on('files').columns(['directory_id', 'inode']).execute();
  await db.schema.createIndex('files_by_age').on('files').columns(['directory_id', 'uploaded_at', 'id']).execute();
  for (const [state, columns] of [
    ['waiting', ['directory_id', 'session_pid']],
    ['partial', ['directory_id']],
  ] as const) {
    const index = db.schema
      .createIndex(`files_${state}`)
      .on('files')
      .columns([...columns]);
    await index.where(sql.ref('state'), '=', sql.lit(state)).execute();
  }
}
