/**
 * The rows that say "the disk may differ from the database here". Written in the transaction of the change itself; the host
 * follows right after, and they are removed, in the background, once no power cut can take that back. What a crash, a power
 * cut or a full disk leaves is repeated from them: credentials before sshd starts (`prepare.ts`), all of it before the API
 * listens, and from time to time. So no credential outlives its change.
 *
 * Order: a change is applied right after its commit, by the same steps each time, and the host applies without giving
 * way. So of two changes of one directory, the later commit is also applied later.
 */
import type { Transaction } from 'kysely';
import type { Database } from '../db/open.ts';
import type { DirectoriesTable, Tables } from '../db/schema.ts';
import { yielder } from '../base/event-loop.ts';
import type { Log } from '../base/log.ts';
import { type Homes, isHomeAway, type Version } from './homes.ts';
import type { DirectoryHost } from './host.ts';
import type { RowRemoval } from './row-removal.ts';

/** Options for recording a change and applying it. */
export interface Applying {
  readonly database: Database;
  readonly host: DirectoryHost;
  readonly homes: Homes;
}

interface Following extends Applying {
  readonly removal: RowRemoval;
}

/** Asks the directory's home to follow. @param directory as it is after the change. */
export async function markUnapplied(tx: Transaction<Tables>, { id, version }: Version): Promise<void> {
  await tx
    .insertInto('unapplied')
    .values({ directory_id: id, version })
    .onConflict((conflict) => conflict.column('directory_id').doUpdateSet({ version }))
    .execute();
}

/**
 * Makes the host agree with a directory as it is now: again, when that changed meanwhile.
 * @returns the row that it agrees with, unless that has gone.
 */
export async function applyCurrent({ database, host, homes, removal }: Following, id: string) {
  for (let applied: DirectoriesTable | undefined; ;) {
    const row = await rowOf(database, homes.here, id);
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
 * Repeats what is marked for this node, and removes the marks of live directories; a deleted one's goes with its row. One
 * that fails is logged, keeps its mark and does not stop the others.
 * @returns how many failed.
 */
export async function applyUnapplied({ log, ...options }: Following & { readonly log: Log }): Promise<number> {
  const marked = await markedFor(options.database, options.homes.here);
  const applied: DirectoriesTable[] = [];
  const yieldNow = yielder();
  let failed = 0;
  for (const { id } of marked) {
    try {
      const row = await applyRequested(options, id);
      if (row?.deleted_at === null) applied.push(row);
    } catch (error) {
      failed += 1;
      const level = isHomeAway(error) ? 'info' : 'error'; // it is on its way to another node
      log[level]({ err: error, directory_id: id }, 'could not make the disk follow a directory, will try again');
    }
    await yieldNow();
  }
  try {
    if (applied.length > 0) await unmark(options, applied);
  } catch (error) {
    // For example while another process writes. They still count as applied.
    log.warn({ err: error }, 'the marks of applied changes stay for the next look');
  }
  return failed;
}

/** Like `applyCurrent`, for a change that a caller on another node may wait for. */
export async function applyRequested(options: Following, id: string) {
  const row = await applyCurrent(options, id);
  if (row) await options.homes.applied(row);
  return row;
}

/** A change since then has its own mark to keep: that of another version. */
async function unmark({ database, host }: Applying, rows: readonly DirectoriesTable[]): Promise<void> {
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

function rowOf({ reads }: Database, node: string, id: string): Promise<DirectoriesTable | undefined> {
  return reads.selectFrom('directories').selectAll().where('id', '=', id).where('node', '=', node).executeTakeFirst();
}
