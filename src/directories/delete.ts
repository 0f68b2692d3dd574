/**
 * Deletes a directory: gone for every caller from the commit, its credentials and sessions ended before the answer, its
 * rows and files removed in the background. A crash in between is repeated at the next start. Username and UID are
 * never used again: `principals` keeps them. On a full disk the credentials and sessions go first.
 */
import { sql } from 'kysely';
import { type Asker, insertAudit } from '../history/audit.ts';
import type { Removal } from '../history/kept-answers.ts';
import type { ChangeDependencies } from './change.ts';
import type { RowRemoval } from './row-removal.ts';
import { evenWhenFull, refusingWhenFull } from './storage-full.ts';
import { notFound } from './target.ts';
import { markUnapplied } from './unapplied.ts';

export interface DeleteDependencies extends ChangeDependencies {
  readonly removal: RowRemoval;
}

/**
 * @param asker the request behind it, for the audit.
 * @throws {BerthError} `directory_not_found` when the account has no such directory, `storage_full`.
 */
export async function deleteDirectory(
  deps: DeleteDependencies,
  accountId: string,
  id: string,
  asker?: Asker,
): Promise<void> {
  const work = (): Promise<void> => takeAway(deps, accountId, id, asker && { asker, action: 'delete' });
  await refusingWhenFull(() =>
    evenWhenFull(deps, { accountId, id }, work, async (directory) => {
      // It goes as soon as there is room for that, unless this process ends before.
      await deps.host.remove(directory);
      if (directory.node === deps.homes.here) deps.removal.add(id);
    }),
  );
}

/**
 * Marks the directory as deleted, takes it from the host, and leaves its rows to the background.
 * @param also what else belongs into the transaction.
 */
export async function takeAway(
  deps: DeleteDependencies,
  accountId: string,
  id: string,
  audited?: { readonly asker: Asker; readonly action: 'delete' | 'undo-create' },
  also?: Removal,
): Promise<void> {
  const directory = await deps.database.db.transaction().execute(async (tx) => {
    const now = deps.clock.now();
    const deleted = await tx
      .updateTable('directories')
      .set({ deleted_at: now, version: sql`version + 1` })
      .where('id', '=', id)
      .where('account_id', '=', accountId)
      .where('deleted_at', 'is', null)
      .returning(['id', 'sftp_username', 'uid', 'node', 'version'])
      .executeTakeFirst();
    if (!deleted) return notFound();
    await markUnapplied(tx, deleted);
    if (audited) await insertAudit(tx, audited.asker, { action: audited.action, at: now, directory: deleted });
    await also?.(tx);
    return deleted;
  });
  await deps.host.remove(directory);
  // Another home removes the rows, too.
  if (directory.node === deps.homes.here) deps.removal.add(directory.id);
}
