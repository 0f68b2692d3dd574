/** Counts the failed deliveries that need attention from an index alone: it has now whether they were sent again. */
import { type Kysely, sql } from 'kysely';

const COLUMNS = ['inserted_at', 'id', 'event', 'replayed_as', 'replay_at'];

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  for (const [name, owner] of [
    ['deliveries_failed_of', 'directory_id'],
    ['deliveries_failed_of_account', 'account_id'],
  ] as const) {
    await schema.dropIndex(name).execute();
    await schema
      .createIndex(name)
      .on('deliveries')
      .columns([owner, ...COLUMNS])
      .where(sql<boolean>`state = 'failed'`)
      .execute();
  }
}
