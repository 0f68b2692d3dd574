/**
 * Records whether quotas can be set on a node, which only its own kernel knows. A node records it when it joins; requests on the node
 * itself check with the kernel again.
 */
import type { Kysely } from 'kysely';
import type { Tables } from '../db/schema.ts';

export async function recordQuotaObstacle(
  db: Kysely<Tables>,
  node: string,
  obstacle: string | undefined,
): Promise<void> {
  await db
    .updateTable('nodes')
    .set({ quota_obstacle: obstacle ?? null })
    .where('name', '=', node)
    .execute();
}

/** The obstacle that the node has recorded, with the node's name; undefined for none. */
export async function quotaObstacleOf(reads: Kysely<Tables>, node: string): Promise<string | undefined> {
  const row = await reads.selectFrom('nodes').select('quota_obstacle').where('name', '=', node).executeTakeFirst();
  return row?.quota_obstacle ? `${row.quota_obstacle} (on the node ${node})` : undefined;
}
