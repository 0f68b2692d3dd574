/**
 * Removes files older than their directory's `retention_days`, by `uploaded_at` (the server's clock at completion, not
 * the file's own time, which clients set at will). Checked at the start and every hour.
 *
 * A clock that is set forward makes nothing old (`clock-lead.ts`).
 *
 * A file goes only while it is the one its row was written for; one that changed since is looked at anew. Its row goes
 * after it: a crash in between leaves a row without a file, which the next check or scan removes.
 */
import { setImmediate } from 'node:timers/promises';
import { isAbsent, lstatBeneath, unlinkBeneath } from '../beneath.ts';
import { type Clock, DAY, SECOND } from '../clock.ts';
import type { Reads } from '../db/reads.ts';
import { errorMessage } from '../errors.ts';
import type { Log } from '../log.ts';
import { type FilesRoot, fileStat, isSame } from './batch.ts';
import type { Change } from './change.ts';
import { createClockLead } from './clock-lead.ts';
import type { Place } from './settle.ts';

/** Milliseconds between checks. */
const INTERVAL = 3_600_000;
const PAGE = 100;
/** Changes on their way to the database beyond which retention waits. Some are always, while a user goes on uploading. */
const BACKLOG = 1000;

export interface RetentionOptions {
  readonly reads: Reads;
  readonly clock: Clock;
  readonly log: Log;
  readonly filesRoot: FilesRoot;
  isWritten(directoryId: string, inode: number): boolean;
  emit(changes: readonly Change[]): void;
  suspect(place: Place, path: Buffer): void;
  /** Waits until at most so many changes are on their way to the database. */
  drained(left: number): Promise<void>;
}

export interface Retention {
  /** Checks all directories now. One check at a time; a second call waits for the one under way. */
  check(): Promise<void>;
  close(): Promise<void>;
}

export function startRetention(options: RetentionOptions): Retention {
  const { reads, clock, log } = options;
  const directories = reads.prepare<{ after: string }>()((db, p) =>
    db
      .selectFrom('directories')
      .select(['id', 'sftp_username', 'retention_days'])
      .where('deleted_at', 'is', null)
      .where('retention_days', '>', 0)
      .where('id', '>', p('after'))
      .orderBy('id')
      .limit(PAGE),
  );
  const expired = reads.prepare<{ directory: string; before: number; at: number; id: string }>()((db, p) =>
    db
      .selectFrom('files')
      .select(['id', 'path', 'uploaded_at', 'inode', 'mtime', 'size_bytes'])
      .where('directory_id', '=', p('directory'))
      .where('uploaded_at', '<', p('before'))
      .where((eb) => eb(eb.refTuple('uploaded_at', 'id'), '>', eb.tuple(p('at'), p('id'))))
      .orderBy('uploaded_at')
      .orderBy('id')
      .limit(PAGE),
  );
  const stop = new AbortController();
  const clockLead = createClockLead(clock, () => performance.now());

  async function checkAll(): Promise<void> {
    const lead = clockLead.now();
    if (lead > 0) log.warn({ hours: lead / (3600 * SECOND) }, 'the clock was set forward: retention waits for as long');
    let after = '';
    while (!stop.signal.aborted) {
      const page = await directories.all({ after });
      for (const directory of page) {
        try {
          await clear(directory, clock.now() - lead - directory.retention_days * DAY);
        } catch (error) {
          log.error(
            { err: error, directory: directory.id },
            'retention failed in a directory; the next check tries again',
          );
        }
      }
      const last = page.at(-1);
      if (!last) return;
      after = last.id;
    }
  }

  async function clear(place: Place, before: number): Promise<void> {
    const root = options.filesRoot(place.sftp_username);
    let cursor = { at: 0, id: '' };
    let removed = 0;
    while (!stop.signal.aborted) {
      const rows = await expired.all({ directory: place.id, before, ...cursor });
      for (const row of rows) {
        const stats = lstatBeneath(root, row.path);
        const about = { directoryId: place.id, path: row.path, at: clock.now() };
        if (stats && (!stats.isFile() || !isSame(row, fileStat(stats)))) options.suspect(place, row.path);
        else if (stats && options.isWritten(place.id, stats.ino)) continue;
        else {
          if (stats) removed += Number(remove(root, row.path));
          options.emit([{ kind: 'removed', ...about }]);
        }
      }
      const last = rows.at(-1);
      if (!last) break;
      cursor = { at: last.uploaded_at, id: last.id };
      await options.drained(BACKLOG);
      await setImmediate();
    }
    if (removed > 0) log.info({ directory: place.id, files: removed }, 'retention removed files');
  }

  function remove(root: string, path: Buffer): boolean {
    try {
      return unlinkBeneath(root, path);
    } catch (error) {
      if (isAbsent(error)) return false;
      throw new Error(`cannot remove an expired file: ${errorMessage(error)}`, { cause: error });
    }
  }

  let running: Promise<void> | undefined;
  const check = (): Promise<void> => (running ??= checkAll().finally(() => (running = undefined)));
  const timer = setInterval(() => void check(), INTERVAL).unref();
  return {
    check,
    async close() {
      stop.abort();
      clearInterval(timer);
      await running;
    },
  };
}
