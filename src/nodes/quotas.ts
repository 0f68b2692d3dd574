/**
 * Whether quotas can be set on a node, which only its own kernel knows. A node records it when it joins; a request on the
 * node itself asks the kernel again.
 */
import type { Kysely } from 'kysely';
import type { Tables } from '../db/schema.ts';

export async function sayQuotaObstacle(db: Kysely<Tables>, node: string, obstacle: string | undefined): Promise<void> {
  await db
    .updateTable('nodes')
    .set({ quota_obstacle: obstacle ?? null })
    .where('name', '=', node)
    .execute();
}

/** The obstacle that the node recorded, with the node's name. */
export async function quotaObstacleOf(reads: Kysely<Tables>, node: string): Promise<string | undefined> {
  const said = await reads.selectFrom('nodes').select('quota_obstacle').where('name', '=', node).executeTakeFirst();
  return said?.quota_obstacle ? `${said.quota_obstacle} (on the node ${node})` : undefined;
}
