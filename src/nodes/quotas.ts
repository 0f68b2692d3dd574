/**
 * Whether quotas can be set on a node, which only its own kernel knows. It says so when it joins the others; asked itself, it
 * looks anew.
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

/** What it said, with its name. */
export async function quotaObstacleOf(reads: Kysely<Tables>, node: string): Promise<string | undefined> {
  const said = await reads.selectFrom('nodes').select('quota_obstacle').where('name', '=', node).executeTakeFirst();
  return said?.quota_obstacle ? `${said.quota_obstacle} (on the node ${node})` : undefined;
}
