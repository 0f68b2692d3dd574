/**
 * The rows that say "the disk may differ from the database here". Written in the transaction of the change itself and
 * removed when the host has followed: what a crash or a full disk leaves, `apply-unapplied.ts` repeats.
 *
 * Order: a change is applied right after its commit, by the same steps each time, and the host applies without giving
 * way. So of two changes of one directory, the later commit is also applied later.
 */
import type { Transaction } from 'kysely';
import type { Database } from '../db/open.ts';
import { prepared } from '../db/prepared.ts';
import type { DirectoriesTable, Tables } from '../db/schema.ts';
import type { DirectoryHost } from './host.ts';

interface Applying {
  readonly database: Database;
  readonly host: DirectoryHost;
}

const insertMark = prepared<{ id: string }>()((db, p) =>
  db
    .insertInto('unapplied')
    .values({ directory_id: p('id') })
    .onConflict((conflict) => conflict.doNothing()),
);

/** A change since then has its own mark to remove: it moved updated_at, or deleted the directory. */
const removeMark = prepared<Pick<DirectoriesTable, 'id' | 'updated_at'>>()((db, p) =>
  db
    .deleteFrom('unapplied')
    .where('directory_id', '=', p('id'))
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('directories')
          .select('id')
          .where('id', '=', p('id'))
          .where('updated_at', '=', p('updated_at'))
          .where('deleted_at', 'is', null),
      ),
    ),
);

export async function markUnapplied(tx: Transaction<Tables>, directoryId: string): Promise<void> {
  await insertMark.all(tx, { id: directoryId });
}

/** Makes the host agree with a live directory's row as committed, then removes the mark. */
export async function applyCommitted({ database, host }: Applying, directory: DirectoriesTable): Promise<void> {
  await host.apply(directory);
  await database.write((tx) => removeMark.all(tx, directory));
}

/**
 * The same without a wait for the mark's removal, which follows in a moment: a mark that a crash leaves only has the
 * next start apply once more what is there.
 */
export async function applyNew({ database, host }: Applying, directory: DirectoriesTable): Promise<void> {
  await host.apply(directory);
  database.write.later((tx) => removeMark.all(tx, directory));
}
