/** The limits of an API key, and the feed of events of one directory. */
import { type Kysely, sql } from 'kysely';

export async function up(db: Kysely<unknown>): Promise<void> {
  const { schema } = db;
  await schema.alterTable('api_keys').addColumn('expires_at', 'bigint').execute();
  await schema
    .alterTable('api_keys')
    .addColumn('read_only', 'integer', (c) => c.notNull().defaultTo(0))
    .execute();
  await schema.alterTable('api_keys').addColumn('directories', 'text').execute();
  // Partial: an event enters the index when a reader of the feed gives it a number, so uploads pay nothing for it.
  await schema
    .createIndex('events_of_directory')
    .on('events')
    .columns(['directory_id', 'sequence'])
    .where(sql.ref('sequence'), 'is not', null)
    .execute();
}
