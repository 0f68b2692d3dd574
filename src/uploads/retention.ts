/**
 * Removes files older than their directory's `retention_days`, by `uploaded_at` (the server's clock at completion, not
 * the file's own time, which clients set at will).
 *
 * A file goes only while it is the one its row was written for; one that changed since is looked at anew. Its row goes
 * after it: a crash in between leaves a row without a file, which the next check or scan removes.
 */
import type { Kysely } from 'kysely';
import { isAbsent, lstatBeneath, unlinkBeneath } from '../beneath.ts';
import { type Clock, DAY, type Micros, SECOND } from '../clock.ts';
import type { FilesTable, Tables } from '../db/schema.ts';
import { errorMessage } from '../errors.ts';
import { yielder } from '../event-loop.ts';
import type { Log } from '../log.ts';
import { type FilesRoot, pathOf } from './file-path.ts';
import { fileStat, isSame } from './record/file-stat.ts';
import type { Ledger, Place } from './record/ledger.ts';

const PAGE = 100;
/** Looks on their way to the database beyond which retention waits. Some are always, while a user goes on uploading. */
const BACKLOG = 1000;

export interface RetentionOptions {
  readonly reads: Kysely<Tables>;
  readonly clock: Clock;
  readonly log: Log;
  readonly filesRoot: FilesRoot;
  readonly ledger: { remove(...about: Parameters<Ledger['remove']>): unknown; touch: Ledger['touch'] };
  /** How far the clock was set forward lately: nothing becomes old by that. */
  lead(): Micros;
  isHeld(directoryId: string, inode: number): Promise<boolean>;
  /** Waits until at most so many looks are under way. */
  drained(left: number): Promise<void>;
}

type Old = Pick<FilesTable, 'id' | 'path' | 'uploaded_at' | 'inode' | 'mtime' | 'size_bytes'>;

/** Checks all directories once. @throws when a directory could not be checked; the others are. */
export async function applyRetention(options: RetentionOptions, signal: AbortSignal): Promise<void> {
  const { reads, clock, log } = options;
  const lead = options.lead();
  if (lead > 0) log.warn({ hours: lead / (3600 * SECOND) }, 'the clock was set forward: retention waits for as long');
  let failure: Error | undefined;
  let after: string | undefined = '';
  while (after !== undefined && !signal.aborted) {
    const page = await reads
      .selectFrom('directories')
      .select(['id', 'sftp_username', 'retention_days'])
      .where('deleted_at', 'is', null)
      .where('retention_days', '>', 0)
      .where('id', '>', after)
      .orderBy('id')
      .limit(PAGE)
      .execute();
    for (const directory of page) {
      try {
        await clear(options, directory, clock.now() - lead - directory.retention_days * DAY, signal);
      } catch (error) {
        failure = new Error(`retention failed in directory ${directory.id}`, { cause: error });
      }
    }
    after = page.at(-1)?.id;
  }
  if (failure) throw failure;
}

async function clear(options: RetentionOptions, place: Place, before: Micros, signal: AbortSignal): Promise<void> {
  const pause = yielder();
  let cursor = { uploaded_at: 0, id: '' };
  let removed = 0;
  while (!signal.aborted) {
    const rows = await expired(options.reads, place.id, before, cursor);
    for (const row of rows) {
      if (await removeOne(options, place, row)) removed += 1;
      await pause();
    }
    const last = rows.at(-1);
    if (!last) break;
    cursor = last;
    await options.drained(BACKLOG);
  }
  if (removed > 0) options.log.info({ directory: place.id, files: removed }, 'retention removed files');
}

function expired(reads: Kysely<Tables>, directory: string, before: Micros, after: Pick<Old, 'uploaded_at' | 'id'>) {
  return reads
    .selectFrom('files')
    .select(['id', 'path', 'uploaded_at', 'inode', 'mtime', 'size_bytes'])
    .where('directory_id', '=', directory)
    .where('uploaded_at', '<', before)
    .where((eb) => eb(eb.refTuple('uploaded_at', 'id'), '>', eb.tuple(after.uploaded_at, after.id)))
    .orderBy('uploaded_at')
    .orderBy('id')
    .limit(PAGE)
    .execute();
}

/** Returns whether there was a file to remove. */
async function removeOne(options: RetentionOptions, place: Place, row: Old): Promise<boolean> {
  const root = options.filesRoot(place.sftp_username);
  const stats = lstatBeneath(root, row.path);
  if (stats && (!stats.isFile() || !isSame(row, fileStat(stats)))) {
    options.ledger.touch(place, pathOf(row.path), 0);
    return false;
  }
  if (stats && (await options.isHeld(place.id, stats.ino))) return false;
  const isRemoved = stats !== undefined && unlink(root, row.path);
  options.ledger.remove(place, pathOf(row.path), undefined, options.clock.now());
  return isRemoved;
}

function unlink(root: string, path: Buffer): boolean {
  try {
    return unlinkBeneath(root, path);
  } catch (error) {
    if (isAbsent(error)) return false;
    throw new Error(`cannot remove an expired file: ${errorMessage(error)}`, { cause: error });
  }
}
