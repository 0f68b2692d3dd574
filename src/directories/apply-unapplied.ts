/**
 * Repeats what a crash or a full disk left undone: every directory that has an `unapplied` row. Called before the API
 * listens, so that no credential outlives its change, and from time to time for what failed.
 */
import type { Database } from '../db/open.ts';
import type { Log } from '../log.ts';
import type { DirectoryHost } from './host.ts';
import type { RowRemoval } from './row-removal.ts';
import { applyCommitted } from './unapplied.ts';

/**
 * Applies or removes each of them. One that fails is logged, keeps its mark and does not stop the others.
 * @returns how many failed.
 */
export async function applyUnapplied({
  database,
  host,
  removal,
  log,
}: {
  database: Database;
  host: DirectoryHost;
  removal: RowRemoval;
  log: Log;
}): Promise<number> {
  const marked = await database.db.selectFrom('unapplied').select('directory_id').execute();
  if (marked.length === 0) return 0;
  const current = database.reads.prepare<{ id: string }>()((db, p) =>
    db.selectFrom('directories').selectAll().where('id', '=', p('id')),
  );
  let failed = 0;
  for (const { directory_id: id } of marked) {
    try {
      // Read anew for each: the row may have changed since the list was made.
      const directory = await current.first({ id });
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
