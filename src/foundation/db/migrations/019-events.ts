/** The events beside `file.uploaded` that a directory or its account has chosen, and the event of each delivery. */
import type { Kysely } from 'kysely';

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('accounts').addColumn('events', 'text').execute();
  await schema.alterTable('directories').addColumn('events', 'text').execute();
  await schema
    .alterTable('deliveries')
    .addColumn('event', 'text', (c) => c.notNull().defaultTo('file.uploaded'))
    .execute();
}
