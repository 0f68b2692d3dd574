/**
 * How a directory is changed, whatever of it: a transaction with the audit and a mark, then the host, which can be repeated.
 * `updated_at` moves when the request changed something: one that repeats what is there leaves it.
 *
 * When the host fails after the commit, the caller gets the error, and the host follows as soon as it can (`unapplied.ts`).
 * Repeating the request applies it again.
 */
import { sql, type Transaction, type Updateable } from 'kysely';
import { verifyActor } from '../accounts/actor.ts';
import { requireDirectory } from '../accounts/scope.ts';
import type { Clock, Micros } from '../base/clock.ts';
import type { DirectoriesTable, Tables } from '../db/schema.ts';
import { insertAudit } from '../history/audit.ts';
import { HOSTED, hostedById } from './host.ts';
import { withDiskReserve, refusingWhenFull } from './storage-full.ts';
import { lockedDirectory, notFound, type Target } from './target.ts';
import { type Applying, markUnapplied } from './unapplied.ts';

export interface ChangeOptions extends Applying {
  readonly clock: Clock;
}

export type Changes = Updateable<DirectoriesTable>;

/** Further statements in the same transaction, with the directory as it is then. */
type Also = (tx: Transaction<Tables>, directory: DirectoriesTable) => Promise<void> | undefined;

/** Computes the changes, inside the transaction that makes them. One that takes access away may run twice, so it has to be repeatable. */
export type Plan = (tx: Transaction<Tables>, now: Micros, before: DirectoriesTable) => Changes | Promise<Changes>;

/**
 * @returns the directory as it is afterwards.
 * @throws {BerthError} `directory_not_found`, `storage_full`; what `plan` throws.
 */
export function changeDirectory(
  options: ChangeOptions,
  target: Target,
  plan: Plan,
  also?: Also,
): Promise<DirectoriesTable> {
  return refusingWhenFull(() => changeOnce(options, target, plan, also));
}

/**
 * Makes a change that takes access away: on a full disk it ends the directory's sessions first, which may be what fills it.
 */
export async function revokeAccess(
  options: ChangeOptions,
  target: Target,
  plan: Plan,
  also?: Also,
): Promise<DirectoriesTable> {
  const { accountId, id } = target;
  return refusingWhenFull(async () => {
    const work = (): Promise<DirectoriesTable> => changeOnce(options, target, plan, also);
    const done = await withDiskReserve(options, { accountId, id }, work, async () => {
      // Applies the present row: the change may not have been committed.
      const directory = await hostedById(options.database.reads, accountId, id);
      if (directory) await options.host.apply(directory).catch(() => undefined);
    });
    return done ?? notFound();
  });
}

async function changeOnce(
  { database, host, clock }: ChangeOptions,
  target: Target,
  plan: Plan,
  also: Also | undefined,
): Promise<DirectoriesTable> {
  const { id, actor } = target;
  const done = await database.db.transaction().execute(async (tx) => {
    requireDirectory(await verifyActor(tx, actor), id);
    const before = await lockedDirectory(tx, target);
    const now = clock.now();
    const changes = await plan(tx, now, before);
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
    if (applies) await markUnapplied(tx, { id, version });
    if (isRepeated) return { directory: { ...before, version }, forHost: applies };
    const after = changes as Partial<DirectoriesTable>;
    if (actor) await insertAudit(tx, actor, { action: 'update', at: now, directory: before, before, after });
    const directory = { ...before, ...changed, version };
    await also?.(tx, directory);
    return { directory, forHost: applies };
  });
  if (done.forHost) await host.apply(done.directory);
  return done.directory;
}
