/**
 * The commit of a move: before it the directory is at home on one node, after it on the other. The mark in `unapplied` requests that the
 * new home applies it. The old one removes its remains, which the same transaction lists in `leftovers` (`../leftovers.ts`).
 */
import { type Kysely, sql, type Transaction } from 'kysely';
import type { Micros } from '../../../foundation/base/clock.ts';
import { forgetInodes } from '../../../foundation/db/forgotten-inodes.ts';
import type { DirectoryRow, Tables } from '../../../foundation/db/schema.ts';
import { markPendingApply } from '../../../rules/directories/pending-apply.ts';
import { OperatorError } from '../../../foundation/base/errors.ts';
import type { Actor } from '../../../rules/accounts/actor.ts';
import { insertAudit } from '../../../rules/history/audit.ts';
import { isLive } from '../list.ts';

export interface Move {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  /** The actor, for the audit. */
  readonly by: Actor;
}

export type Moved = Pick<DirectoryRow, 'id' | 'sftp_username' | 'node' | 'sftp_host' | 'sftp_port' | 'version'>;

/** @throws {OperatorError} when the directory cannot move there, or is no longer at home on `from`. Then nothing has changed. */
export function rehome(db: Kysely<Tables>, { id, from, to, by }: Move, now: Micros): Promise<Moved> {
  return db.transaction().execute(async (tx) => {
    const home = await checkTarget(tx, { id, to });
    const before = await tx
      .selectFrom('directories')
      .select(['account_id', 'sftp_username', 'uid'])
      .where('id', '=', id)
      .where('node', '=', from)
      .where('deleted_at', 'is', null)
      .forNoKeyUpdate()
      .executeTakeFirst();
    if (!before) throw new OperatorError(`the directory is no longer at home on ${from}: nothing has changed`);
    const { account_id: accountId, sftp_username, uid } = before;
    const { version } = await tx
      .updateTable('directories')
      .set({ node: to, ...home, updated_at: now, version: sql`version + 1` })
      .where('id', '=', id)
      .returning('version')
      .executeTakeFirstOrThrow();
    await markPendingApply(tx, { id, version });
    await forgetInodes(tx, id);
    await tx.deleteFrom('placements').where('directory_id', '=', id).execute();
    await tx
      .insertInto('leftovers')
      .values({ node: from, directory_id: id, sftp_username, uid })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    const details = { node: { from, to } };
    const directory = { id, sftp_username };
    await insertAudit(tx, { accountId, actor: by }, { action: 'update', at: now, directory, details });
    return { id, sftp_username, node: to, ...home, version };
  });
}

/** @returns the address for the directory's users. @throws {OperatorError} when the directory cannot move to that node now. */
export async function checkTarget(tx: Kysely<Tables> | Transaction<Tables>, { id, to }: Pick<Move, 'id' | 'to'>) {
  const node = await tx
    .selectFrom('nodes as n')
    .select(['n.sftp_host', 'n.sftp_port', 'n.quota_obstacle', isLive('n.name').as('is_live')])
    .where('n.name', '=', to)
    // The lock lets the node report, but not be removed.
    .forKeyShare()
    .executeTakeFirst();
  if (!node) throw new OperatorError(`no node is called ${to}: see berth node list`);
  const { is_live, quota_obstacle, ...home } = node;
  if (!is_live) throw new OperatorError(`${to} is away: nothing has changed`);
  const left = await tx
    .selectFrom('leftovers')
    .select('node')
    .where('node', '=', to)
    .where('directory_id', '=', id)
    .executeTakeFirst();
  if (left) throw new OperatorError(`${to} still removes its earlier copy of the directory: try again in some seconds`);
  const limited = await tx
    .selectFrom('directories')
    .select('id')
    .where('id', '=', id)
    .where('quota_bytes', 'is not', null)
    .executeTakeFirst();
  if (limited && quota_obstacle) throw new OperatorError(`${to} cannot enforce its quota: ${quota_obstacle}`);
  return home;
}
