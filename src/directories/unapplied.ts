/**
 * The rows that say "the disk may differ from the database here". Written in the transaction of the change itself and
 * removed when the host has followed. What a crash or a full disk leaves is repeated before the API listens, so that no
 * credential outlives its change, and from time to time.
 *
 * Order: a change is applied right after its commit, by the same steps each time, and the host applies without giving
 * way. So of two changes of one directory, the later commit is also applied later.
 */
import type { Transaction } from 'kysely';
import type { Database } from '../db/open.ts';
import type { DirectoriesTable, Tables } from '../db/schema.ts';
import { errorCode } from '../errors.ts';
import type { Log } from '../log.ts';
import type { DirectoryHost } from './host.ts';
import type { RowRemoval } from './row-removal.ts';

/** Where a change is written, and who follows it. */
export interface Applying {
  readonly database: Database;
  readonly host: DirectoryHost;
}

export async function markUnapplied(tx: Transaction<Tables>, directoryId: string): Promise<void> {
  await tx
    .insertInto('unapplied')
    .values({ directory_id: directoryId })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** Makes the host agree with a live directory's row as committed, then removes the mark. */
export async function applyCommitted({ database, host }: Applying, directory: DirectoriesTable): Promise<void> {
  await host.apply(directory);
  await removeMark(database, directory).catch((error: unknown) => {
    // The change counts: while another process writes, its mark stays for the next look.
    if (errorCode(error) !== 'SQLITE_BUSY') throw error;
  });
}

async function removeMark(database: Database, directory: DirectoriesTable): Promise<void> {
  await database.db
    .deleteFrom('unapplied')
    .where('directory_id', '=', directory.id)
    // A change since then has its own mark to remove: it moved updated_at, or deleted the directory.
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('directories')
          .select('id')
          .where('id', '=', directory.id)
          .where('updated_at', '=', directory.updated_at)
          .where('deleted_at', 'is', null),
      ),
    )
    .execute();
}

/** Applies a directory as it is now, unless it has gone meanwhile. */
export async function applyCurrent(deps: Applying, id: string): Promise<void> {
  const directory = await rowOf(deps.database, id);
  if (directory?.deleted_at === null) await applyCommitted(deps, directory);
}

/**
 * Repeats what is marked. One that fails is logged, keeps its mark and does not stop the others.
 * @returns how many failed.
 */
export async function applyUnapplied({
  database,
  host,
  removal,
  log,
}: Applying & { readonly removal: RowRemoval; readonly log: Log }): Promise<number> {
  const marked = await database.db.selectFrom('unapplied').select('directory_id').execute();
  let failed = 0;
  for (const { directory_id: id } of marked) {
    try {
      // Read anew for each: the row may have changed since the list was made.
      const directory = await rowOf(database, id);
      if (!directory) continue;
      if (directory.deleted_at === null && !removal.has(id)) {
        await applyCommitted({ database, host }, directory);
      } else {
        await host.remove(directory);
        removal.add(id);
      }
    } catch (error) {
      failed += 1;
      log.error({ err: error, directory_id: id }, 'could not make the disk follow a directory, will try again');
    }
  }
  return failed;
}

function rowOf({ reads }: Database, id: string): Promise<DirectoriesTable | undefined> {
  return reads.selectFrom('directories').selectAll().where('id', '=', id).executeTakeFirst();
}
