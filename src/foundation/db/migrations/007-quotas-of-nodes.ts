/** Why a node cannot set quotas, so that other nodes know it. */
import type { Kysely } from 'kysely';

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('nodes').addColumn('quota_obstacle', 'text').execute();
}
