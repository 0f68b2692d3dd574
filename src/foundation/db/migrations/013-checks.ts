/** Files that are checked before they are announced, files that were rejected, and the reasons. */
import { type Kysely, sql } from 'kysely';
import { isPostgres } from '../dialect.ts';

export async function up(db: Kysely<unknown>): Promise<void> {
  await allowFilesInCheck(db);
  await db.schema
    .createIndex('files_checking')
    .on('files')
    .columns(['directory_id', 'uploaded_at', 'id'])
    .where(sql.ref('state'), '=', sql.lit('checking'))
    .execute();
  await db.schema.alterTable('transfers').addColumn('reason', 'text').execute();
  await db.schema
    .createTable('quarantine')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('directory_id', 'text', (c) => c.notNull().references('directories.id').onDelete('cascade'))
    .addColumn('node', 'text', (c) => c.notNull())
    .addColumn('path', 'blob', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addColumn('inode', 'bigint', (c) => c.notNull())
    .addColumn('mtime', 'bigint', (c) => c.notNull())
    .addColumn('reason', 'text', (c) => c.notNull())
    .addColumn('rejected_at', 'bigint', (c) => c.notNull())
    .addColumn('released_at', 'bigint')
    .execute();
  await db.schema
    .createIndex('quarantine_by_directory')
    .on('quarantine')
    .columns(['directory_id', 'rejected_at'])
    .execute();
  await db.schema.createIndex('quarantine_by_age').on('quarantine').column('rejected_at').execute();
}

/** Adds a state for files. SQLite cannot change a constraint, so the table is rebuilt as 004 left it. */
async function allowFilesInCheck(db: Kysely<unknown>): Promise<void> {
  const states = sql`state in ('uploaded', 'waiting', 'partial', 'placed', 'checking')`;
  if (isPostgres(db)) {
    await db.schema.alterTable('files').dropConstraint('files_state_check').execute();
    await db.schema.alterTable('files').addCheckConstraint('files_state_check', states).execute();
    return;
  }
  await db.schema
    .createTable('files_013')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('directory_id', 'text', (c) => c.notNull().references('directories.id'))
    .addColumn('path', 'blob', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull().check(states))
    .addColumn('uploaded_at', 'bigint', (c) => c.notNull())
    .addColumn('inode', 'bigint', (c) => c.notNull())
    .addColumn('mtime', 'bigint', (c) => c.notNull())
    .addColumn('source', 'text', (c) => c.notNull().check(sql`source in ('log', 'disk')`))
    .addColumn('session_pid', 'integer')
    .addUniqueConstraint('files_by_path', ['directory_id', 'path'])
    .execute();
  await sql`insert into files_013 select * from files`.execute(db);
  await db.schema.dropTable('files').execute();
  await db.schema.alterTable('files_013').renameTo('files').execute();
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
