/** Counts an account's failed deliveries without the tests among them from the index alone, which has their events now. */
import { type Kysely, sql } from 'kysely';

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema.dropIndex('deliveries_failed_of_account').execute();
  await schema
    .createIndex('deliveries_failed_of_account')
    .on('deliveries')
    .columns(['account_id', 'inserted_at', 'id', 'event'])
    .where(sql<boolean>`state = 'failed'`)
    .execute();
}
