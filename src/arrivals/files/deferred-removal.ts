/**
 * Removals that wait for a client. Once a client has closed a file, it still asks for it: for its size, or to set its times or mode. A
 * quick consumer may have removed the file by then, and the client would report a failure and send the file again. So a file that is
 * removed within 30 s of its upload stays on the disk while sessions of that client ask for anything. Its row is `removed`: nothing
 * lists it any more.
 *
 * The row follows what the client does, like any other row: a rename moves it, and a new upload replaces it.
 *
 * Promise: the rows alone have the state, so the next start continues after a crash. A file leaves the disk only if it is as its row has
 * it, and after its row. What was written to it meanwhile stays, and is a new upload.
 */
import { unlink } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Loop } from '../../foundation/base/background.ts';
import { lstatBeneath } from '../../foundation/base/beneath.ts';
import { SECOND } from '../../foundation/base/clock.ts';
import type { DirectoryRow, FilesTable } from '../../foundation/db/schema.ts';
import { BerthError, isUnavailable } from '../../foundation/base/errors.ts';
import { bytesOf, type FilePath, parentOf, pathOf } from '../uploads/file-path.ts';
import type { Jail } from '../uploads/jails.ts';
import { bytesReadBy } from '../uploads/processes.ts';
import { fileStat, isAsRecorded } from '../uploads/record/file-stat.ts';
import { senderOf } from '../uploads/record/transfer-history.ts';
import type { BySession } from '../uploads/story/operations.ts';
import type { RecordedUpload } from '../uploads/upload-list.ts';
import { changed, gone } from './content.ts';
import { takingOut } from './taking-out.ts';
import type { Deferral, FilesGround } from './context.ts';

/** How long after its upload a client may ask for a file. */
const LONGEST = 30 * SECOND;
/** A client that has asked for nothing that long does not miss the file, in ms. */
const IDLE_MS = 5000;
/** How often clients are looked at, in ms. */
const TICK_MS = 500;
/** How often rows are searched that this process has not made, in ms: a directory may have come from another node with some. */
const SEARCH_MS = 20_000;
/** The wait before a file is tried again that somebody writes or has changed, in ms, doubled each time. */
const RETRY_MS = 500;
const LONGEST_RETRY_MS = 60_000;
/** Rows of a query, and how many files are removed at once. */
const PAGE = 500;
const AT_ONCE = 16;
/** How long a request waits until a file that was touched has been compared with its row, and how often it looks, in ms. */
const SETTLING_MS = 2000;
const POLL_MS = 10;

/** A literal, so that the partial index on this state is used. */
const REMOVED = sql.lit('removed' as const);

/** A row that is `removed`, and its directory. */
interface Waiting extends RecordedUpload, Pick<DirectoryRow, 'account_id' | 'uid' | 'sftp_username'> {
  readonly directory_id: string;
}

/** What this process remembers of a removal that waits. */
interface Known {
  /** Undefined when no session has uploaded the file. */
  readonly sender: BySession | undefined;
  tries: number;
  /** When to try again, by the monotonic clock in ms. */
  due: number;
}

/** How much a process has read, and since when, by the monotonic clock in ms. */
interface Reading {
  /** Undefined when the kernel does not say. */
  readonly bytes: number | undefined;
  readonly since: number;
}

/** What all removals share that are looked at together. */
interface Moment {
  readonly readings: Map<number, Reading>;
  /** The live sessions of directories, as `sessionsOf` returns them. */
  readonly sessions: Map<string, readonly BySession[] | undefined>;
}

export class DeferredRemovals implements Deferral {
  readonly #context: FilesGround;
  readonly #loop: Loop;
  /** Removals that are being ended, by the file's id. */
  readonly #underWay = new Map<string, Promise<void>>();
  #known = new Map<string, Known>();
  #readings = new Map<number, Reading>();
  #mayHaveSome = true;
  /** When rows were last read, by the monotonic clock in ms. */
  #readAt = 0;

  constructor(context: FilesGround) {
    this.#context = context;
    this.#loop = context.background.start('removals', { every: TICK_MS }, (signal) => this.#tick(signal));
  }

  async mayBeAskedFor(directory: DirectoryRow, file: RecordedUpload): Promise<boolean> {
    if (this.#isOld(file)) return false;
    const { by } = await senderOf(this.#context.database.reads, { ...file, directory_id: directory.id });
    const sessions = sessionsOfClient(this.#context.sessionsOf(directory), by);
    return sessions !== 'none' && (await this.#hasRoom(directory));
  }

  added(): void {
    this.#mayHaveSome = true;
  }

  async endOf(fileId: string): Promise<void> {
    const [row] = await this.#removed().where('f.id', '=', fileId).execute();
    if (row) await this.#endNow(row);
  }

  async endAt({ id }: Pick<Jail, 'id'>, path: FilePath): Promise<void> {
    const paths: Buffer[] = [];
    for (let at = path; at !== ''; at = parentOf(at)) paths.push(bytesOf(at));
    const rows = await this.#removed().where('f.directory_id', '=', id).where('f.path', 'in', paths).execute();
    for (const row of rows) await unlessRefused(this.#endNow(row));
  }

  /** Ends all removals that wait in a directory whose sessions have ended. */
  async endIn({ id }: Pick<Jail, 'id'>): Promise<void> {
    const rows = await this.#removed().where('f.directory_id', '=', id).execute();
    await eachOf(rows, (row) => unlessRefused(this.#endNow(row)));
  }

  async close(): Promise<void> {
    await this.#loop.close();
    await Promise.allSettled(this.#underWay.values());
  }

  async #tick(signal: AbortSignal): Promise<void> {
    const isDue = this.#mayHaveSome || performance.now() - this.#readAt >= SEARCH_MS;
    if (!isDue || !this.#context.isJailDiskThere()) return;
    this.#readAt = performance.now();
    // Set again by a removal that comes while these rows are read.
    this.#mayHaveSome = false;
    const now: Moment = { readings: new Map(), sessions: new Map() };
    const left = new Map<string, Known>();
    let isWhole = false;
    try {
      for (let after = { directory_id: '', id: '' }, count = PAGE; count === PAGE && !signal.aborted;) {
        const rows = await this.#removed()
          .where(({ eb, refTuple, tuple }) =>
            eb(refTuple('f.directory_id', 'f.id'), '>', tuple(after.directory_id, after.id)),
          )
          .orderBy('f.directory_id')
          .orderBy('f.id')
          .limit(PAGE)
          .execute();
        count = rows.length;
        after = rows.at(-1) ?? after;
        const due: Waiting[] = [];
        for (const row of rows) {
          const known = this.#known.get(row.id) ?? (await this.#firstKnown(row));
          left.set(row.id, known);
          if (performance.now() >= known.due && !this.#isAskedFor(row, known, now)) due.push(row);
        }
        await eachOf(due, async (row) => {
          if (signal.aborted) return;
          if (await this.#hasEnded(row)) left.delete(row.id);
          else retryLater(left.get(row.id));
        });
      }
      isWhole = true;
    } finally {
      this.#known = left;
      this.#readings = now.readings;
      this.#mayHaveSome ||= !isWhole || left.size > 0;
    }
  }

  /** A file that the disk does not give must not keep the others. */
  async #hasEnded(row: Waiting): Promise<boolean> {
    const { log, through } = this.#context;
    try {
      return await unlessRefused(through(row.directory_id, () => this.#end(row)));
    } catch (error) {
      if (isUnavailable(error)) throw error;
      log.error({ err: error, directory: row.directory_id }, 'cannot take a removed file from the disk, trying again');
      return false;
    }
  }

  async #firstKnown(row: Waiting): Promise<Known> {
    const { by: sender } = await senderOf(this.#context.database.reads, row);
    return { sender, tries: 0, due: 0 };
  }

  #isAskedFor(row: Waiting, { sender }: Known, { readings, sessions }: Moment): boolean {
    if (this.#isOld(row)) return false;
    const { directory_id: id, sftp_username } = row;
    if (!sessions.has(id)) sessions.set(id, this.#context.sessionsOf({ id, sftp_username }));
    const own = sessionsOfClient(sessions.get(id), sender);
    if (own === 'none' || own === 'unknown') return own === 'unknown';
    // Looks at all of them: each has to be idle for itself.
    return own.filter(({ pid }) => !this.#isIdle(pid, readings)).length > 0;
  }

  /** Whether the process has read nothing from its client for a while, as far as this process has watched it. */
  #isIdle(pid: number, readings: Map<number, Reading>): boolean {
    const now = performance.now();
    let reading = readings.get(pid);
    if (!reading) {
      const bytes = bytesReadBy(pid);
      const last = this.#readings.get(pid);
      reading = last && last.bytes === bytes ? last : { bytes, since: now };
      readings.set(pid, reading);
    }
    return reading.bytes !== undefined && now - reading.since >= IDLE_MS;
  }

  /** A clock that was set back does not keep a file. */
  #isOld({ uploaded_at }: Pick<FilesTable, 'uploaded_at'>): boolean {
    return Math.abs(this.#context.clock.now() - uploaded_at) >= LONGEST;
  }

  /** The kernel counts the file until it is gone. What else arrives must not find the quota used up by removed files. */
  async #hasRoom({ id, quota_bytes, storage_bytes }: DirectoryRow): Promise<boolean> {
    if (quota_bytes === null) return true;
    const { bytes } = await this.#context.database.reads
      .selectFrom('files')
      .select((eb) => eb.fn.coalesce(eb.fn.sum('size_bytes'), eb.lit(0)).as('bytes'))
      .where('directory_id', '=', id)
      .where('state', '=', REMOVED)
      .executeTakeFirstOrThrow();
    return storage_bytes + Number(bytes) <= quota_bytes / 2;
  }

  #removed() {
    const { database, config } = this.#context;
    return database.reads
      .selectFrom('files as f')
      .innerJoin('directories as d', 'd.id', 'f.directory_id')
      .select(['f.id', 'f.directory_id', 'f.path', 'f.size_bytes', 'f.uploaded_at', 'f.inode', 'f.mtime', 'f.ctime'])
      .select(['d.account_id', 'd.uid', 'd.sftp_username'])
      .where('f.state', '=', REMOVED)
      .where('d.node', '=', config.node)
      .where('d.deleted_at', 'is', null);
  }

  /** Like `#end`. A client may have set the file's times a moment ago: waits until its row shows that. */
  async #endNow(row: Waiting): Promise<void> {
    const over = performance.now() + SETTLING_MS;
    for (
      let last: Waiting | undefined = row;
      last;
      [last] = await this.#removed().where('f.id', '=', row.id).execute()
    ) {
      try {
        return await this.#end(last);
      } catch (error) {
        const mayPass = error instanceof BerthError && error.code === 'file_changed';
        if (!mayPass || performance.now() > over) throw error;
      }
      await wait(POLL_MS);
    }
  }

  /**
   * Takes the file from the disk.
   * @throws {BerthError} `file_in_use` or `file_changed` when somebody writes it or has changed it, `upload_not_found` when it is not
   * at its path.
   */
  async #end(row: Waiting): Promise<void> {
    const other = this.#underWay.get(row.id);
    if (other) return other;
    const ending = this.#takeOut(row);
    this.#underWay.set(row.id, ending);
    try {
      await ending;
    } finally {
      this.#underWay.delete(row.id);
    }
  }

  async #takeOut(row: Waiting): Promise<void> {
    const { database, filesRoot, missing, touch, quarantined } = this.#context;
    const { directory_id: id, account_id, uid, sftp_username } = row;
    const directory = { id, account_id, uid, sftp_username };
    const path = pathOf(row.path);
    const stats = lstatBeneath(filesRoot(sftp_username), row.path);
    if (!stats) {
      // The client has removed it or, if that is not recorded yet, renamed it.
      missing(directory, path);
      throw gone(undefined);
    }
    if (!stats.isFile() || !isAsRecorded(row, fileStat(stats))) {
      touch(directory, path, 0);
      throw changed();
    }
    const taken = await takingOut(this.#context, directory, row, async () => {
      const { numDeletedRows } = await database.db
        .deleteFrom('files')
        .where('id', '=', row.id)
        .where('state', '=', REMOVED)
        .executeTakeFirst();
      // A new upload has replaced it, and is this file.
      if (numDeletedRows === 0n) throw changed();
    });
    if (!(await quarantined(row.id, taken))) await unlink(taken);
  }
}

/** The live sessions of the client that has uploaded a file: several may work together. */
function sessionsOfClient(
  sessions: readonly BySession[] | undefined,
  sender: BySession | undefined,
): readonly BySession[] | 'none' | 'unknown' {
  if (!sender) return 'none';
  if (!sessions) return 'unknown';
  const own = sessions.filter(
    ({ pid, address }) => pid === sender.pid || (address !== '' && address === sender.address),
  );
  return own.length > 0 ? own : 'none';
}

function retryLater(known: Known | undefined): void {
  if (!known) return;
  known.due = performance.now() + Math.min(RETRY_MS * 2 ** known.tries, LONGEST_RETRY_MS);
  known.tries += 1;
}

/** Whether it succeeded. False when somebody writes the file, or has changed or moved it. */
async function unlessRefused(ending: Promise<void>): Promise<boolean> {
  try {
    await ending;
    return true;
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
    return false;
  }
}

/** Several at once, since each waits for the disk. */
async function eachOf<T>(all: readonly T[], act: (each: T) => Promise<unknown>): Promise<void> {
  for (let at = 0; at < all.length; at += AT_ONCE) await Promise.all(all.slice(at, at + AT_ONCE).map(act));
}
