/**
 * Deletes a directory. After the commit no caller can see it. Its credentials and sessions end before the answer. Its rows
 * and files are removed in the background, or after a crash by the next start. Username and UID are never used again:
 * `principals` keeps them. On a full disk the credentials and sessions end before the commit.
 */
import { sql } from 'kysely';
import { type AccountTarget, type Removal, verifyActor } from '../accounts/actor.ts';
import { DAY } from '../../foundation/base/clock.ts';
import type { DirectoryRow } from '../../foundation/db/schema.ts';
import { insertAudit } from '../history/audit.ts';
import { refusingWhenFull, withDiskReserve } from './storage-full.ts';
import { isHomeAway } from './host.ts';
import { notFound, type RuleContext, type Target } from './target.ts';
import { markPendingApply } from './pending-apply.ts';
import { BerthError } from '../../foundation/base/errors.ts';

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
  target: Target<never>,
  action: 'delete' | 'undo-create',
  also?: Removal,
): Promise<Deleted | undefined> {
  return database.db.transaction().execute(async (tx) => {
    await verifyActor(tx, target);
    const now = clock.now();
    const deleted = await tx
      .updateTable('directories')
      .set({ deleted_at: now, version: sql`version + 1` })
      .where('id', '=', target.id)
      .where('account_id', '=', target.accountId)
      .where('deleted_at', 'is', null)
      .returning(DELETED)
      .executeTakeFirst();
    if (!deleted) return undefined;
    await markPendingApply(tx, deleted);
    await insertAudit(tx, target, { action, at: now, directory: deleted });
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

/**
 * Finishes what `berth account delete` began by marking the account: its keys are refused, and it gets no new directory. The
 * directories are deleted one by one, each as by a DELETE of the API, with its audit; then the keys and the account.
 * Each step can be repeated, and the service looks for marked accounts from time to time, so a crash only delays it.
 */
export async function finishDeletions(context: RuleContext, signal: AbortSignal): Promise<void> {
  const accounts = await context.database.reads
    .selectFrom('accounts')
    .select(['id', 'deleted_by'])
    .where('deleted_at', 'is not', null)
    .execute();
  for (const { id, deleted_by } of accounts) {
    const keyId = deleted_by ?? 'operator:root';
    const actor = { keyId, requestId: id, route: 'berth account delete' };
    await deleteDirectories(context, { accountId: id, actor }, signal);
    if (signal.aborted) return;
    await removeAccount(context, id);
  }
}

/** Logs a directory that cannot be deleted now, and continues with the others. */
async function deleteDirectories(context: RuleContext, target: AccountTarget, signal: AbortSignal): Promise<void> {
  const live = await context.database.reads
    .selectFrom('directories')
    .select('id')
    .where('account_id', '=', target.accountId)
    .where('deleted_at', 'is', null)
    .execute();
  for (const { id } of live) {
    if (signal.aborted) return;
    try {
      await deleteDirectory(context, { ...target, id });
    } catch (error) {
      if (error instanceof BerthError && error.code === 'directory_not_found') continue; // deleted meanwhile
      context.log.error(
        { err: error, directory_id: id },
        'could not delete a directory of a deleted account, will try again',
      );
    }
  }
}

/** The account stays until the background has removed the rows of its directories (`row-removal.ts`). */
async function removeAccount({ database }: RuleContext, id: string): Promise<void> {
  await database.db.transaction().execute(async (tx) => {
    // Waits for the transaction of a create that is under way, whose directory is then found below.
    await tx.selectFrom('accounts').select('id').where('id', '=', id).forUpdate().execute();
    const directory = await tx.selectFrom('directories').select('id').where('account_id', '=', id).executeTakeFirst();
    if (directory) return;
    await tx.deleteFrom('kept_answers').where('account_id', '=', id).execute();
    await tx.deleteFrom('kept_answer_totals').where('account_id', '=', id).execute();
    await tx.deleteFrom('api_keys').where('account_id', '=', id).execute();
    await tx.deleteFrom('daily_totals').where('owner_id', '=', id).execute();
    await tx.deleteFrom('accounts').where('id', '=', id).execute();
  });
}
