/** Which events a directory or its account asks for beside `file.uploaded`, and which one a delivery tells of. */
import type { Kysely } from 'kysely';

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('accounts').addColumn('events', 'text').execute();
  await schema.alterTable('directories').addColumn('events', 'text').execute();
  await schema
    .alterTable('deliveries')
    .addColumn('event', 'text', (c) => c.notNull().defaultTo('file.uploaded'))
    .execute();
}
