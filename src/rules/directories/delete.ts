/**
 * Deletes a directory. After the commit no caller can see it. Its credentials and sessions end before the answer. Its rows
 * and files are removed in the background, or after a crash by the next start. Username and UID are never used again:
 * `principals` keeps them. On a full disk the credentials and sessions end before the commit.
 */
import { sql } from 'kysely';
import { type Removal, verifyActor } from '../accounts/actor.ts';
import { DAY } from '../../foundation/base/clock.ts';
import type { DirectoryRow } from '../../foundation/db/schema.ts';
import { insertAudit } from '../history/audit.ts';
import { withDiskReserve, refusingWhenFull } from './storage-full.ts';
import { isHomeAway } from './node-placement.ts';
import { notFound, type RuleContext, type Target } from './target.ts';
import { markPendingApply } from './pending-apply.ts';

const DELETED = ['id', 'sftp_username', 'uid', 'node', 'version'] as const;

export type Deleted = Pick<DirectoryRow, (typeof DELETED)[number]>;

/** How long a deletion is remembered after its request failed because the directory's node was away. */
const REMEMBERED_FOR = DAY;

/**
 * @throws {BerthError} `directory_not_found` when the account has no such directory, `storage_full`; `home_unavailable` when
 * its node does not answer: the node ends the sessions when it is back, and a repeated request succeeds then.
 */
export async function deleteDirectory(context: RuleContext, target: Target): Promise<void> {
  const work = async (): Promise<void> => {
    const deleted = (await markDeleted(context, target, 'delete')) ?? (await unanswered(context, target));
    if (!deleted) return notFound();
    try {
      await removeFromHost(context, deleted);
    } catch (error) {
      if (!isHomeAway(error) || (await remember(context, target.accountId, deleted))) throw error;
    }
  };
  await refusingWhenFull(() =>
    // The background removes the rows once there is room, unless this process ends before that.
    withDiskReserve(context, target, work, (directory) => removeFromHost(context, directory)),
  );
}

/** @param also runs in the same transaction. @returns undefined when the account has no such directory. */
export function markDeleted(
  { database, clock }: RuleContext,
  { accountId, id, actor }: Target<never>,
  action: 'delete' | 'undo-create',
  also?: Removal,
): Promise<Deleted | undefined> {
  return database.db.transaction().execute(async (tx) => {
    await verifyActor(tx, actor);
    const now = clock.now();
    const deleted = await tx
      .updateTable('directories')
      .set({ deleted_at: now, version: sql`version + 1` })
      .where('id', '=', id)
      .where('account_id', '=', accountId)
      .where('deleted_at', 'is', null)
      .returning(DELETED)
      .executeTakeFirst();
    if (!deleted) return undefined;
    await markPendingApply(tx, deleted);
    await insertAudit(tx, actor, { action, at: now, directory: deleted });
    await also?.(tx);
    return deleted;
  });
}

/** Removes the directory from its host; the background removes its rows. @param isNew whether no client knows it yet. */
export async function removeFromHost(context: RuleContext, directory: Deleted, isNew = false): Promise<void> {
  await context.host.remove(directory, isNew);
  // Another node removes the rows as well.
  if (directory.node === context.placement.here) context.removal.add(directory.id);
}

/** Returns false when the directory's node has removed it meanwhile. */
async function remember({ database, clock }: RuleContext, accountId: string, deleted: Deleted): Promise<boolean> {
  const { id, ...columns } = deleted;
  const now = clock.now();
  return database.db.transaction().execute(async (tx) => {
    await tx
      .deleteFrom('unanswered_deletions')
      .where('inserted_at', '<', now - REMEMBERED_FOR)
      .execute();
    const isThere = await tx.selectFrom('directories').select('id').where('id', '=', id).executeTakeFirst();
    if (!isThere) return false;
    await tx
      .insertInto('unanswered_deletions')
      .values({ ...columns, directory_id: id, account_id: accountId, inserted_at: now })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    return true;
  });
}

function unanswered({ database }: RuleContext, { accountId, id }: Target): Promise<Deleted | undefined> {
  return database.reads
    .selectFrom('unanswered_deletions')
    .select(['directory_id as id', 'sftp_username', 'uid', 'node', 'version'])
    .where('directory_id', '=', id)
    .where('account_id', '=', accountId)
    .executeTakeFirst();
}
