/**
 * The rows that say "the disk may differ from the database here". Written in the transaction of the change itself and
 * removed when the host has followed: what a crash or a full disk leaves, `apply-unapplied.ts` repeats.
 *
 * Order: a change is applied right after its commit, by the same steps each time, and the host applies without giving
 * way. So of two changes of one directory, the later commit is also applied later.
 */
import type { Transaction } from 'kysely';
import type { Database } from '../db/open.ts';
import type { DirectoriesTable, Tables } from '../db/schema.ts';
import type { DirectoryHost } from './host.ts';

export async function markUnapplied(tx: Transaction<Tables>, directoryId: string): Promise<void> {
  await tx
    .insertInto('unapplied')
    .values({ directory_id: directoryId })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** Makes the host agree with a live directory's row as committed, then removes the mark. */
export async function applyCommitted(
  { database, host }: { database: Database; host: DirectoryHost },
  directory: DirectoriesTable,
): Promise<void> {
  await host.apply(directory);
  // A change since then has its own mark to remove: it moved updated_at, or deleted the directory.
  await database.write((tx) =>
    tx
      .deleteFrom('unapplied')
      .where('directory_id', '=', directory.id)
      .where(({ exists, selectFrom }) =>
        exists(
          selectFrom('directories')
            .select('id')
            .where('id', '=', directory.id)
            .where('updated_at', '=', directory.updated_at)
            .where('deleted_at', 'is', null),
        ),
      )
      .execute(),
  );
}
