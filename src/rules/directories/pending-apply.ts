/**
 * `unapplied` rows, here called marks, mean: the disk may differ from the database for this directory. A mark is written in
 * the transaction of the change. The host follows right after, and the mark is removed in the background once no power cut
 * can undo that. Marks that a crash, a power cut or a full disk leaves are applied again: the credentials before sshd starts
 * (`prepare.ts`), everything before the API listens, and from time to time. So no credential outlives its change.
 *
 * Order: every change is applied right after its commit, and the host writes the credentials before it waits for anything.
 * So of two changes of one directory, the later commit is also applied later.
 */
import type { Kysely, Transaction } from 'kysely';
import type { Database } from '../../foundation/db/open.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { yielder } from '../../foundation/base/event-loop.ts';
import { isHomeAway, type Version } from './host.ts';
import type { RuleContext } from './target.ts';

/** Marks the changed directory, for its home to follow. */
export async function markPendingApply(tx: Transaction<Tables>, { id, version }: Version): Promise<void> {
  await tx
    .insertInto('unapplied')
    .values({ directory_id: id, version })
    .onConflict((conflict) => conflict.column('directory_id').doUpdateSet({ version }))
    .execute();
}

/** Whether the directory's home may still have to follow a change. */
export async function isPendingApply(tx: Kysely<Tables>, id: string): Promise<boolean> {
  const mark = tx.selectFrom('unapplied').select('directory_id').where('directory_id', '=', id);
  return (await mark.executeTakeFirst()) !== undefined;
}

/**
 * Makes the host agree with the directory's row, and repeats that if the row changed meanwhile.
 * @returns the row that the host agrees with; undefined when it has gone.
 */
export async function applyCurrent({ database, host, placement, removal }: RuleContext, id: string) {
  for (let applied: DirectoryRow | undefined; ;) {
    const row = await rowOf(database, placement.here, id);
    if (!row || row.version === applied?.version) return row;
    if (row.deleted_at !== null || removal.has(id)) {
      await host.remove(row);
      removal.add(id);
    } else if (!host.isApplied(row)) {
      await host.apply(row);
    }
    applied = row;
  }
}

/**
 * Applies every marked directory of this node, and removes the marks of live ones; the mark of a deleted one is removed with
 * its row. A directory that fails is logged and keeps its mark; the others continue.
 * @returns how many failed.
 */
export async function applyPending(context: RuleContext): Promise<number> {
  const marked = await markedFor(context.database, context.placement.here);
  const applied: DirectoryRow[] = [];
  const yieldNow = yielder();
  let failed = 0;
  for (const { id } of marked) {
    try {
      const row = await applyRequested(context, id);
      if (row?.deleted_at === null) applied.push(row);
    } catch (error) {
      failed += 1;
      const level = isHomeAway(error) ? 'info' : 'error'; // it is being moved to another node
      context.log[level]({ err: error, directory_id: id }, 'could not apply a directory to the disk, will try again');
    }
    await yieldNow();
  }
  try {
    if (applied.length > 0) await unmark(context, applied);
  } catch (error) {
    // For example because another process writes. These directories still count as applied.
    context.log.warn({ err: error }, 'could not remove the marks of applied changes, will try again');
  }
  return failed;
}

/** Like `applyCurrent`, but also reports to other nodes, where a caller may wait for the change. */
export async function applyRequested(context: RuleContext, id: string) {
  const row = await applyCurrent(context, id);
  if (row) await context.placement.applied(row);
  return row;
}

/** The mark of a later change has a higher version, and stays. */
async function unmark({ database, host }: RuleContext, rows: readonly DirectoryRow[]): Promise<void> {
  await host.makeDurable(rows.map((row) => row.sftp_username));
  await database.db.transaction().execute(async (tx) => {
    for (const { id, version } of rows) {
      await tx.deleteFrom('unapplied').where('directory_id', '=', id).where('version', '<=', version).execute();
    }
  });
}

function markedFor({ reads }: Database, node: string): Promise<{ id: string }[]> {
  return reads
    .selectFrom('unapplied')
    .innerJoin('directories', 'directories.id', 'unapplied.directory_id')
    .select('directories.id')
    .where('directories.node', '=', node)
    .execute();
}

function rowOf({ reads }: Database, node: string, id: string): Promise<DirectoryRow | undefined> {
  return reads.selectFrom('directories').selectAll().where('id', '=', id).where('node', '=', node).executeTakeFirst();
}
