/**
 * Every change of a directory takes these steps: a transaction with the audit and a mark (`pending-apply.ts`), then the host,
 * which can be repeated. A request that changes nothing leaves `updated_at` as it is.
 *
 * When the host fails after the commit, the caller gets the error, and the host is tried again in the background. Repeating
 * the request tries it again as well.
 */
import { sql, type Transaction, type Updateable } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import type { DirectoriesTable, DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { insertAudit } from '../history/audit.ts';
import { HOSTED, hostedById } from './host.ts';
import { withDiskReserve, refusingWhenFull } from './storage-full.ts';
import { lockedDirectory, notFound, type RuleContext, type Target } from './target.ts';
import { isPendingApply, markPendingApply } from './pending-apply.ts';

export type Changes = Updateable<Pick<DirectoriesTable, keyof DirectoryRow>>;

/** Further statements in the same transaction, given the changed directory. */
type Also = (tx: Transaction<Tables>, directory: DirectoryRow) => Promise<void> | undefined;

/** Computes the changes, in the transaction that makes them. `revokeAccess` may run it twice, so it has to be repeatable there. */
export type DirectoryChange = (
  tx: Transaction<Tables>,
  now: Micros,
  before: DirectoryRow,
) => Changes | Promise<Changes>;

/**
 * @returns the changed directory.
 * @throws {BerthError} `directory_not_found`, `storage_full`; and the errors of `change`.
 */
export function changeDirectory(
  context: RuleContext,
  target: Target<never>,
  change: DirectoryChange,
  also?: Also,
): Promise<DirectoryRow> {
  return refusingWhenFull(() => changeOnce(context, target, change, also));
}

/** Makes a change that takes access away. On a full disk it ends the directory's sessions first: they may be filling it. */
export async function revokeAccess(
  context: RuleContext,
  target: Target<never>,
  change: DirectoryChange,
  also?: Also,
): Promise<DirectoryRow> {
  return refusingWhenFull(async () => {
    const work = (): Promise<DirectoryRow> => changeOnce(context, target, change, also);
    const done = await withDiskReserve(context, target, work, async () => {
      // Applies the row as it is now: the change may not have been committed.
      const directory = await hostedById(context.database.reads, target.accountId, target.id);
      if (directory) await context.host.apply(directory).catch(() => undefined);
    });
    return done ?? notFound();
  });
}

/**
 * Applies a change that was committed, unless the host has followed it. Repeatable.
 * @throws {BerthError} `storage_full`, `home_unavailable`.
 */
export function applyCommitted({ database, host }: RuleContext, { accountId, id }: Target<never>): Promise<void> {
  return refusingWhenFull(async () => {
    if (!(await isPendingApply(database.reads, id))) return;
    const directory = await hostedById(database.reads, accountId, id);
    if (directory && !host.isApplied(directory)) await host.apply(directory);
  });
}

async function changeOnce(
  { database, host, clock }: RuleContext,
  target: Target<never>,
  change: DirectoryChange,
  also: Also | undefined,
): Promise<DirectoryRow> {
  const { id } = target;
  const done = await database.db.transaction().execute(async (tx) => {
    const before = await lockedDirectory(tx, target);
    const now = clock.now();
    const changes = await change(tx, now, before);
    const applies = HOSTED.some((column) => Object.hasOwn(changes, column));
    const isRepeated = Object.entries(changes).every(([column, value]) => before[column as keyof Changes] === value);
    if (isRepeated && !applies) return { directory: before, forHost: false };
    const changed = isRepeated ? {} : { ...changes, updated_at: now };
    const { version } = await tx
      .updateTable('directories')
      .set({ ...changed, version: sql`version + 1` })
      .where('id', '=', id)
      .returning('version')
      .executeTakeFirstOrThrow();
    if (applies) await markPendingApply(tx, { id, version });
    if (isRepeated) return { directory: { ...before, version }, forHost: applies };
    const after = changes as Partial<DirectoryRow>;
    await insertAudit(tx, target, { action: 'update', at: now, directory: before, before, after });
    const directory = { ...before, ...changed, version };
    await also?.(tx, directory);
    return { directory, forHost: applies };
  });
  if (done.forHost) await host.apply(done.directory);
  return done.directory;
}
