/** Directories that use no webhook of their account, and where each node's API is. */
import type { Kysely } from 'kysely';

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .alterTable('directories')
    .addColumn('uses_account_webhook', 'integer', (c) => c.notNull().defaultTo(1))
    .execute();
  await schema.alterTable('nodes').addColumn('api_url', 'text').execute();
}
