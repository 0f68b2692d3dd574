/**
 * Who is alive, and where a new directory goes. A node lives while the server sees its session, which ends with its
 * process, and while it says so each second, which a machine that hangs or is cut off does not. Times are the server's.
 */
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import { type Micros, SECOND } from '../clock.ts';
import { isHeld } from '../db/session.ts';
import { serverTime } from '../db/shared.ts';
import type { Tables } from '../db/schema.ts';
import type { Home } from '../directories/homes.ts';
import { BerthError } from '../errors.ts';

/** How long a node may be silent. */
const SILENCE: Micros = 3 * SECOND;

/** Nodes that have this much of the most free space are as good as the best. */
const CLOSE = 0.95;

/** The lock that a node's session holds. */
export function lockOf(node: string): string {
  return `berth node ${node}`;
}

/** Whether the node of that name lives. @param name a column, with its table. */
export function isLive(name: string): RawBuilder<boolean> {
  return sql<boolean>`exists (
    select from nodes
    where nodes.name = ${sql.ref(name)}
      and seen_at > ${serverTime} - ${SILENCE}
      and ${isHeld(sql`'berth node ' || nodes.name`)}
  )`;
}

/** Whether a node has said nothing for long, whatever session it has. */
export async function isSilent(db: Kysely<Tables>, node: string): Promise<boolean> {
  const heard = await db
    .selectFrom('nodes')
    .select('name')
    .where('name', '=', node)
    .where('seen_at', '>', sql<number>`${serverTime} - ${SILENCE}`)
    .executeTakeFirst();
  return heard === undefined;
}

/** @throws {BerthError} `home_unavailable` when none is left. */
export async function chooseHome(tx: Transaction<Tables>, here: string, tried: readonly string[]): Promise<Home> {
  let open = tx
    .selectFrom('nodes as n')
    .select(['name', 'n.sftp_host', 'n.sftp_port', 'free_bytes'])
    .where('drained_at', 'is', null)
    // This one lives, however late its last word is.
    .where((eb) => eb.or([eb('name', '=', here), isLive('n.name')]));
  if (tried.length > 0) open = open.where('name', 'not in', tried);
  const best = await tx
    .with('open', () => open)
    .selectFrom('open')
    .select(['name as node', 'sftp_host', 'sftp_port'])
    .where(({ eb, selectFrom }) =>
      eb(
        'free_bytes',
        '>=',
        selectFrom('open as o').select(({ fn }) =>
          sql<number>`${fn.max('o.free_bytes')} * ${sql.lit(CLOSE)}`.as('least'),
        ),
      ),
    )
    .orderBy(({ selectFrom }) =>
      selectFrom('directories')
        .select(({ fn }) => fn.countAll().as('count'))
        .whereRef('node', '=', 'open.name'),
    )
    // Its own are live without a word to anybody.
    .orderBy(({ eb }) => eb('name', '<>', here))
    .orderBy('name')
    .limit(1)
    .executeTakeFirst();
  return best ?? noHome();
}

function noHome(): never {
  throw new BerthError('home_unavailable', 'No node takes new directories at the moment');
}
