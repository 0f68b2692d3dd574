/** Tests of webhooks are deliveries of the event `test`. Few rows are, so counting them without the others is cheap. */
import { type Kysely, sql } from 'kysely';

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createIndex('deliveries_tests')
    .on('deliveries')
    .columns(['directory_id', 'inserted_at'])
    .where(sql<boolean>`event = 'test'`)
    .execute();
}
