/** A user can be limited to reading, and to some directories, as an API key can be. */
import type { Kysely } from 'kysely';

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .alterTable('users')
    .addColumn('read_only', 'integer', (c) => c.notNull().defaultTo(0))
    .execute();
  await schema.alterTable('users').addColumn('directories', 'text').execute();
}
