/** What several machines on one database need: who they are, where each directory is at home, and what its home has yet to do. */
import { type Kysely, sql } from 'kysely';
import { isPostgres } from '../dialect.ts';

export async function up(db: Kysely<unknown>): Promise<void> {
  const { schema } = db;
  await schema
    .createTable('nodes')
    .addColumn('name', 'text', (c) => c.primaryKey())
    .addColumn('sftp_host', 'text', (c) => c.notNull())
    .addColumn('sftp_port', 'integer', (c) => c.notNull())
    .addColumn('free_bytes', 'bigint', (c) => c.notNull())
    .addColumn('seen_at', 'bigint', (c) => c.notNull())
    .addColumn('drained_at', 'bigint')
    .addColumn('inserted_at', 'bigint', (c) => c.notNull())
    .execute();

  const column = (table: string, name: string, type: ReturnType<typeof sql>) =>
    schema.alterTable(table).addColumn(name, type).execute();
  // The only machine on SQLite has no name: its host name may change.
  await column('directories', 'node', sql`text not null default ''`);
  await column('directories', 'version', sql`bigint not null default 0`);
  await column('unapplied', 'version', sql`bigint not null default 0`);
  await column('unapplied', 'done', sql`bigint not null default 0`);
  if (!isPostgres(db)) return;

  await schema.createIndex('directories_at_home').on('directories').columns(['node', 'id']).execute();
  // What a crash of the server forgets is one minute of counts.
  await sql`
    create unlogged table request_counts (
      account_id text not null, minute bigint not null, requests bigint not null, primary key (account_id, minute)
    )`.execute(db);
}
