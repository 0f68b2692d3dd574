/**
 * Rows of files that were removed, and that the session which uploaded them may still ask for (`arrivals/files/deferred-removal.ts`).
 * They have a state of their own. From now on only `FileState` lists the states: SQLite would have to rebuild the table for each new one.
 */
import { type Kysely, sql } from 'kysely';
import { isPostgres } from '../dialect.ts';

export async function up(db: Kysely<unknown>): Promise<void> {
  if (isPostgres(db)) await db.schema.alterTable('files').dropConstraint('files_state_check').execute();
  else await rebuild(db);
  await db.schema
    .createIndex('files_removed')
    .on('files')
    .columns(['directory_id', 'id'])
    .where(sql.ref('state'), '=', sql.lit('removed'))
    .execute();
}

/** SQLite cannot drop a constraint. The table is otherwise as 013, 023 and 024 left it. */
async function rebuild(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('files_028')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('directory_id', 'text', (c) => c.notNull().references('directories.id'))
    .addColumn('path', 'blob', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('uploaded_at', 'bigint', (c) => c.notNull())
    .addColumn('inode', 'bigint', (c) => c.notNull())
    .addColumn('mtime', 'bigint', (c) => c.notNull())
    .addColumn('source', 'text', (c) => c.notNull().check(sql`source in ('log', 'disk')`))
    .addColumn('session_pid', 'integer')
    .addColumn('ctime', 'bigint')
    .addColumn('returns_to', 'text')
    .addColumn('check_failure', 'text')
    .addUniqueConstraint('files_by_path', ['directory_id', 'path'])
    .execute();
  await sql`insert into files_028 select * from files`.execute(db);
  await db.schema.dropTable('files').execute();
  await db.schema.alterTable('files_028').renameTo('files').execute();
  await db.schema.createIndex('files_by_inode').on('files').columns(['directory_id', 'inode']).execute();
  await db.schema.createIndex('files_by_age').on('files').columns(['directory_id', 'uploaded_at', 'id']).execute();
  for (const [state, columns] of [
    ['waiting', ['directory_id', 'session_pid']],
    ['partial', ['directory_id']],
    ['checking', ['directory_id', 'uploaded_at', 'id']],
  ] as const) {
    const index = db.schema
      .createIndex(`files_${state}`)
      .on('files')
      .columns([...columns]);
    await index.where(sql.ref('state'), '=', sql.lit(state)).execute();
  }
}
