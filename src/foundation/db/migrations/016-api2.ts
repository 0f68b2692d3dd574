/** Directories that do not use their account's webhook, and the address of each node's API. */
import type { Kysely } from 'kysely';

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .alterTable('directories')
    .addColumn('uses_account_webhook', 'integer', (c) => c.notNull().defaultTo(1))
    .execute();
  await schema.alterTable('nodes').addColumn('api_url', 'text').execute();
}
