/** The rows of nodes: which are live, the list of them, and how one leaves. */
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import { type Micros, SECOND } from '../../foundation/base/clock.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { isHeld, serverTime } from '../../foundation/db/shared.ts';
import type { Home } from '../../rules/directories/host.ts';
import { BerthError, OperatorError } from '../../foundation/base/errors.ts';

export interface ListedNode {
  readonly name: string;
  readonly sftp_host: string;
  readonly sftp_port: number;
  /** Its BERTH_API_URL. */
  readonly api_url: string | null;
  readonly state: 'live' | 'away' | 'drained';
  /** The number of directories that are at home there. */
  readonly directories: number;
  /** The storage of these directories. */
  readonly storage_bytes: number;
  /** Free space on the disk of the jails, as last reported. */
  readonly free_bytes: number;
  readonly seen_at: Micros;
}

/** All nodes by name. PostgreSQL only. */
export async function listNodes(reads: Kysely<Tables>): Promise<ListedNode[]> {
  const rows = await reads
    .selectFrom('nodes as n')
    .leftJoin('directories as d', (join) => join.onRef('d.node', '=', 'n.name').on('d.deleted_at', 'is', null))
    .select(({ fn, val }) => [
      'n.name',
      'n.sftp_host',
      'n.sftp_port',
      'n.api_url',
      'n.free_bytes',
      'n.seen_at',
      'n.drained_at',
      isLive('n.name').as('is_live'),
      fn.count<number>('d.id').as('directories'),
      fn.coalesce(fn.sum<number>('d.storage_bytes'), val(0)).as('storage_bytes'),
    ])
    .groupBy('n.name')
    .orderBy('n.name')
    .execute();
  return rows.map(({ is_live, drained_at, ...node }) => ({ ...node, state: stateOf(is_live, drained_at) }));
}

function stateOf(isLiveNow: boolean, drainedAt: Micros | null): ListedNode['state'] {
  if (!isLiveNow) return 'away';
  return drainedAt === null ? 'live' : 'drained';
}

// Decides which nodes are live, and where a new directory goes. A node is live while the server sees its session,
// which ends with its process, and the node has reported within the last seconds, which a frozen or disconnected
// machine does not. Times are the server's.

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

// Stops giving a node directories, and removes it for good. PostgreSQL only.

/** Stops or resumes giving a node new directories. Repeatable. @throws {OperatorError} when the node is unknown. */
export async function drainNode(db: Kysely<Tables>, name: string, isDrained: boolean): Promise<void> {
  const found = await db
    .updateTable('nodes')
    .set(({ fn, ref }) => ({ drained_at: isDrained ? fn.coalesce(ref('drained_at'), serverTime) : null }))
    .where('name', '=', name)
    .returning('name')
    .executeTakeFirst();
  if (!found) throw unknownNode(name);
}

/** @throws {OperatorError} when the node is unknown or live, or has directories. */
export function removeNode(db: Kysely<Tables>, name: string): Promise<void> {
  return db.transaction().execute(async (tx) => {
    const found = await tx
      .selectFrom('nodes as n')
      .select(isLive('n.name').as('is_live'))
      .where('n.name', '=', name)
      .forUpdate()
      .executeTakeFirst();
    if (!found) throw unknownNode(name);
    const { count } = await tx
      .selectFrom('directories')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('node', '=', name)
      .where('deleted_at', 'is', null)
      .executeTakeFirstOrThrow();
    if (count > 0) {
      const directories = count === 1 ? 'directory is' : 'directories are';
      throw new OperatorError(`${count} ${directories} at home on ${name}: nothing has changed`);
    }
    if (found.is_live) throw new OperatorError(`berth runs on ${name}: stop it there first; nothing has changed`);
    await handOver(tx, name);
    await tx.deleteFrom('leftovers').where('node', '=', name).execute();
    await tx.deleteFrom('nodes').where('name', '=', name).execute();
  });
}

/** Gives the deleted directories to some other node, which removes their rows. */
async function handOver(tx: Transaction<Tables>, name: string): Promise<void> {
  const heir = await tx.selectFrom('nodes').select('name').where('name', '<>', name).limit(1).executeTakeFirst();
  if (heir) await tx.updateTable('directories').set({ node: heir.name }).where('node', '=', name).execute();
}

function unknownNode(name: string): OperatorError {
  return new OperatorError(`no node is called ${name}: see berth node list`);
}
