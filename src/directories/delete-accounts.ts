/**
 * Ends what `berth account delete` began with a mark on the account, from which on its keys are refused and it gets no
 * directory. Its directories go one by one, each as by a DELETE of the API, with its audit; then the keys and the account.
 * Each step can be repeated, and the service looks for such accounts from time to time: so a crash delays it only.
 */
import { BerthError } from '../errors.ts';
import type { Log } from '../log.ts';
import { deleteDirectory, type DeleteDependencies } from './delete.ts';

type Dependencies = DeleteDependencies & { readonly log: Log };

export async function finishDeletions(deps: Dependencies, signal: AbortSignal): Promise<void> {
  const accounts = await deps.database.reads
    .selectFrom('accounts')
    .select(['id', 'deleted_by'])
    .where('deleted_at', 'is not', null)
    .execute();
  for (const { id, deleted_by } of accounts) {
    await deleteDirectories(deps, id, deleted_by ?? 'operator:root', signal);
    if (signal.aborted) return;
    await removeAccount(deps, id);
  }
}

/** One that cannot be deleted now is logged, and does not keep the others. */
async function deleteDirectories(
  deps: Dependencies,
  accountId: string,
  keyId: string,
  signal: AbortSignal,
): Promise<void> {
  const asker = { accountId, keyId, requestId: accountId, route: 'berth account delete' };
  const live = await deps.database.reads
    .selectFrom('directories')
    .select('id')
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .execute();
  for (const { id } of live) {
    if (signal.aborted) return;
    try {
      await deleteDirectory(deps, accountId, id, asker);
    } catch (error) {
      if (error instanceof BerthError && error.code === 'directory_not_found') continue; // deleted meanwhile
      deps.log.error(
        { err: error, directory_id: id },
        'could not delete a directory of a deleted account, will try again',
      );
    }
  }
}

/** The rows of its directories go in the background (`row-removal.ts`): until then it stays. */
async function removeAccount({ database }: Dependencies, id: string): Promise<void> {
  await database.db.transaction().execute(async (tx) => {
    // A create that is under way ends before it is looked for.
    await tx.selectFrom('accounts').select('id').where('id', '=', id).forUpdate().execute();
    const directory = await tx.selectFrom('directories').select('id').where('account_id', '=', id).executeTakeFirst();
    if (directory) return;
    await tx.deleteFrom('kept_answers').where('account_id', '=', id).execute();
    await tx.deleteFrom('kept_answer_totals').where('account_id', '=', id).execute();
    await tx.deleteFrom('api_keys').where('account_id', '=', id).execute();
    await tx.deleteFrom('accounts').where('id', '=', id).execute();
  });
}
