/** The feed of events, and an account's webhook for directories without one of their own. */
import { type Kysely, sql } from 'kysely';

export async function up(db: Kysely<unknown>): Promise<void> {
  const { schema } = db;
  // Without foreign keys: the history of a directory outlives it.
  await schema
    .createTable('events')
    .addColumn('id', 'integer', (c) => c.primaryKey().autoIncrement())
    .addColumn('account_id', 'text', (c) => c.notNull())
    .addColumn('sequence', 'bigint')
    .addColumn('at', 'bigint', (c) => c.notNull())
    .addColumn('event', 'text', (c) => c.notNull())
    .addColumn('directory_id', 'text', (c) => c.notNull())
    .addColumn('upload_id', 'text')
    .addColumn('body', 'text', (c) => c.notNull())
    .execute();
  await schema
    .createIndex('events_by_sequence')
    .unique()
    .on('events')
    .columns(['account_id', 'sequence'])
    .where(sql.ref('sequence'), 'is not', null)
    .execute();
  await schema
    .createIndex('events_unnumbered')
    .on('events')
    .columns(['account_id', 'id'])
    .where(sql.ref('sequence'), 'is', null)
    .execute();
  await schema.createIndex('events_by_age').on('events').column('at').execute();
  await schema
    .createTable('event_sequences')
    .addColumn('account_id', 'text', (c) => c.primaryKey().references('accounts.id').onDelete('cascade'))
    .addColumn('last', 'bigint', (c) => c.notNull())
    .execute();

  await schema
    .createTable('account_webhooks')
    .addColumn('account_id', 'text', (c) => c.primaryKey().references('accounts.id').onDelete('cascade'))
    .addColumn('url', 'text')
    .addColumn('secret', 'text', (c) => c.notNull())
    .addColumn('next_secret', 'text')
    .execute();
}
