/** Whether quotas can be set on a node, for the others that are asked to. */
import type { Kysely } from 'kysely';

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('nodes').addColumn('quota_obstacle', 'text').execute();
}
