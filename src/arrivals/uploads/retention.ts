/**
 * Removes files older than their directory's `retention_days`, by `uploaded_at` (the server's clock at completion, not
 * the file's own time, which clients can set).
 *
 * Files uploaded while the clock was ahead would stay too long, so they count from when the clock was corrected.
 *
 * A file is removed only if it is still the one its row was written for. A file that has changed since is looked at
 * instead. The row is removed after the file: a crash in between leaves a row without a file, which the next check or
 * scan removes. A row whose file is missing is looked at, because a rename may be about to move it.
 */
import type { Kysely } from 'kysely';
import { lstatBeneath, unlinkBeneath } from '../../foundation/base/beneath.ts';
import { type Clock, DAY, type Micros } from '../../foundation/base/clock.ts';
import { type ClockLead, DOUBTFUL } from '../../foundation/db/clock-lead.ts';
import type { Database } from '../../foundation/db/open.ts';
import { pagesById } from '../../foundation/db/lists.ts';
import type { FilesTable, Tables } from '../../foundation/db/schema.ts';
import { yielder } from '../../foundation/base/event-loop.ts';
import type { Log } from '../../foundation/base/log.ts';
import { type FilePath, type FilesRoot, pathOf } from './file-path.ts';
import type { Jail } from './jails.ts';
import { fileStat, isAsRecorded } from './record/file-stat.ts';

/** The most rows of a query. Before each page of files, the kernel is asked which files are open for writing. */
const PAGE = 100;
/** How many pending lines, operations and looks retention waits below. While users upload there are always some. */
const BACKLOG = 1000;

export interface RetentionOptions {
  readonly database: Pick<Database, 'db' | 'reads'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly filesRoot: FilesRoot;
  /** The node whose directories are served. */
  readonly node: string;
  readonly recorder: {
    /** Records that berth has removed a file. */
    removed(jail: Jail, path: FilePath, about: { readonly at: Micros; readonly reason: string }): void;
    /** Compares a path with its row, in `inMs` ms. */
    look(jail: Jail, path: FilePath, inMs: number): void;
  };
  readonly clockLead: ClockLead;
  /**
   * Resolves with a function that says whether an inode must not be removed, according to the kernel's current state.
   */
  mustStay(directoryId: string): Promise<(inode: number) => boolean>;
  /** Waits until at most `left` lines, operations and looks are pending. */
  drained(left: number): Promise<void>;
}

type Old = Pick<FilesTable, 'id' | 'path' | 'uploaded_at' | 'inode' | 'mtime' | 'ctime' | 'size_bytes'>;

/** Checks all directories once. @throws when a directory could not be checked; the others are. */
export async function applyRetention(options: RetentionOptions, signal: AbortSignal): Promise<void> {
  const { reads } = options.database;
  const { now, lead } = await options.clockLead();
  let failure: Error | undefined;
  const retaining = reads
    .selectFrom('directories')
    .select(['id', 'sftp_username', 'retention_days'])
    .where('node', '=', options.node)
    .where('deleted_at', 'is', null)
    .where('retention_days', '>', 0)
    .orderBy('id')
    .limit(PAGE);
  for await (const page of pagesById((after) => retaining.where('id', '>', after).execute(), signal)) {
    for (const directory of page) {
      try {
        if (Math.abs(lead) <= DOUBTFUL) await takeBack(options.database, directory.id, now + Math.max(0, lead));
        await clear(options, directory, now, signal);
      } catch (error) {
        failure = new Error(`retention failed in directory ${directory.id}`, { cause: error });
      }
    }
  }
  if (failure) throw failure;
}

/** Moves upload times in the future back to now, in order. Times up to a day ahead are left alone. */
async function takeBack({ db, reads }: Pick<Database, 'db' | 'reads'>, directory: string, now: Micros): Promise<void> {
  const earliest = await reads
    .selectFrom('files')
    .select('uploaded_at')
    .where('directory_id', '=', directory)
    .where('uploaded_at', '>', now + DOUBTFUL)
    .orderBy('uploaded_at')
    .limit(1)
    .executeTakeFirst();
  if (!earliest) return;
  await db
    .updateTable('files')
    .set((eb) => ({ uploaded_at: eb('uploaded_at', '-', earliest.uploaded_at - now) }))
    .where('directory_id', '=', directory)
    .where('uploaded_at', '>', now + DOUBTFUL)
    .execute();
}

async function clear(
  options: RetentionOptions,
  jail: Jail & { readonly retention_days: number },
  now: Micros,
  signal: AbortSignal,
): Promise<void> {
  const { retention_days: days } = jail;
  const before = now - days * DAY;
  const pause = yielder();
  let cursor = { uploaded_at: 0, id: '' };
  let removed = 0;
  while (!signal.aborted) {
    const rows = await expired(options.database.reads, jail.id, before, cursor);
    const last = rows.at(-1);
    if (!last) break;
    const mustStay = await options.mustStay(jail.id);
    for (const row of rows) {
      if (removeOne(options, jail, row, { mustStay, reason: `retention (${days} days)` })) removed += 1;
      await pause();
    }
    cursor = last;
    await options.drained(BACKLOG);
  }
  if (removed > 0) options.log.info({ directory: jail.id, files: removed }, 'retention removed files');
}

function expired(reads: Kysely<Tables>, directory: string, before: Micros, after: Pick<Old, 'uploaded_at' | 'id'>) {
  return reads
    .selectFrom('files')
    .select(['id', 'path', 'uploaded_at', 'inode', 'mtime', 'ctime', 'size_bytes'])
    .where('directory_id', '=', directory)
    .where('uploaded_at', '<', before)
    .where((eb) => eb(eb.refTuple('uploaded_at', 'id'), '>', eb.tuple(after.uploaded_at, after.id)))
    .orderBy('uploaded_at')
    .orderBy('id')
    .limit(PAGE)
    .execute();
}

/** Returns whether there was a file to remove. */
function removeOne(
  { filesRoot, recorder, clock }: RetentionOptions,
  jail: Jail,
  row: Old,
  { mustStay, reason }: { readonly mustStay: (inode: number) => boolean; readonly reason: string },
): boolean {
  const root = filesRoot(jail.sftp_username);
  const stats = lstatBeneath(root, row.path);
  if (stats && (!stats.isFile() || !isAsRecorded(row, fileStat(stats)))) {
    recorder.look(jail, pathOf(row.path), 0);
    return false;
  }
  if (stats && mustStay(stats.ino)) return false;
  if (!stats || !unlinkBeneath(root, row.path)) {
    recorder.look(jail, pathOf(row.path), 0);
    return false;
  }
  recorder.removed(jail, pathOf(row.path), { at: clock.now(), reason });
  return true;
}
