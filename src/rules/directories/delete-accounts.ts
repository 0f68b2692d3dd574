/**
 * Finishes what `berth account delete` began by marking the account: its keys are refused, and it gets no new directory. The
 * directories are deleted one by one, each as by a DELETE of the API, with its audit; then the keys and the account.
 * Each step can be repeated, and the service looks for marked accounts from time to time, so a crash only delays it.
 */
import type { Actor } from '../accounts/actor.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import { deleteDirectory } from './delete.ts';
import type { RuleContext } from './target.ts';

export async function finishDeletions(context: RuleContext, signal: AbortSignal): Promise<void> {
  const accounts = await context.database.reads
    .selectFrom('accounts')
    .select(['id', 'deleted_by'])
    .where('deleted_at', 'is not', null)
    .execute();
  for (const { id, deleted_by } of accounts) {
    await deleteDirectories(context, { accountId: id, keyId: deleted_by ?? 'operator:root' }, signal);
    if (signal.aborted) return;
    await removeAccount(context, id);
  }
}

/** Logs a directory that cannot be deleted now, and continues with the others. */
async function deleteDirectories(
  context: RuleContext,
  { accountId, keyId }: Pick<Actor, 'accountId' | 'keyId'>,
  signal: AbortSignal,
): Promise<void> {
  const actor = { accountId, keyId, requestId: accountId, route: 'berth account delete' };
  const live = await context.database.reads
    .selectFrom('directories')
    .select('id')
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .execute();
  for (const { id } of live) {
    if (signal.aborted) return;
    try {
      await deleteDirectory(context, { accountId, id, actor });
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
