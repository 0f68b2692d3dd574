/**
 * Decides which nodes are live, and where a new directory goes. A node is live while the server sees its session, which ends with its
 * process, and the node has reported within the last seconds, which a frozen or disconnected machine does not. Times are the server's.
 */
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import { type Micros, SECOND } from '../../foundation/base/clock.ts';
import { isHeld, serverTime } from '../../foundation/db/shared.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import type { Home } from '../../rules/directories/node-placement.ts';
import { BerthError } from '../../foundation/base/errors.ts';

/** How long a live node may go without a report. */
const MAX_SILENCE: Micros = 3 * SECOND;

/** Nodes with this share of the largest free space count as equal to the best. */
const SIMILAR_SHARE = 0.95;

const LOCK = 'berth node ';

/** The lock that a node's session holds. */
export function lockOf(node: string): string {
  return LOCK + node;
}

/** Whether the node of that name is live. @param name a column, with its table. */
export function isLive(name: string): RawBuilder<boolean> {
  return sql<boolean>`exists (
    select from nodes
    where nodes.name = ${sql.ref(name)}
      and seen_at > ${serverTime} - ${MAX_SILENCE}
      and ${isHeld(sql`${sql.lit(LOCK)} || nodes.name`)}
  )`;
}

/** Whether a node has not reported for long, even if it still has a session. */
export async function isSilent(db: Kysely<Tables>, node: string): Promise<boolean> {
  const reporting = await db
    .selectFrom('nodes')
    .select('name')
    .where('name', '=', node)
    .where('seen_at', '>', sql<number>`${serverTime} - ${MAX_SILENCE}`)
    .executeTakeFirst();
  return reporting === undefined;
}

/** @throws {BerthError} `home_unavailable` when no node is left. */
export async function chooseHome(tx: Transaction<Tables>, here: string, tried: readonly string[]): Promise<Home> {
  const open = await tx
    .selectFrom('nodes as n')
    .select(['n.name as node', 'n.sftp_host', 'n.sftp_port', 'n.free_bytes'])
    .where('n.drained_at', 'is', null)
    // This node is live, however old its last report is.
    .where((eb) => eb.or([eb('n.name', '=', here), isLive('n.name')]))
    // This node comes first.
    .orderBy(({ eb }) => eb('n.name', '<>', here))
    .orderBy('n.name')
    .execute();
  const left = open.filter(({ node }) => !tried.includes(node));
  const least = Math.max(...left.map(({ free_bytes }) => free_bytes)) * SIMILAR_SHARE;
  const best = left.filter(({ free_bytes }) => free_bytes >= least);
  const counts = best.length > 1 ? await directoriesOn(tx, best) : new Map<string, number>();
  const fewest = Math.min(...best.map(({ node }) => counts.get(node) ?? 0));
  const home = best.find(({ node }) => (counts.get(node) ?? 0) === fewest);
  if (!home) throw new BerthError('home_unavailable', 'No node accepts new directories at the moment');
  const { node, sftp_host, sftp_port } = home;
  return { node, sftp_host, sftp_port };
}

async function directoriesOn(tx: Transaction<Tables>, nodes: readonly Home[]): Promise<Map<string, number>> {
  const counted = await tx
    .selectFrom('directories')
    .select(({ fn }) => ['node', fn.countAll<number>().as('count')])
    .where(
      'node',
      'in',
      nodes.map(({ node }) => node),
    )
    .groupBy('node')
    .execute();
  return new Map(counted.map(({ node, count }) => [node, count]));
}
