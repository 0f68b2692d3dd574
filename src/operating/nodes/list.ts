/** Lists all nodes for an operator. */
import type { Kysely } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { isLive } from './live.ts';

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
