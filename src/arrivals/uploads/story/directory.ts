/**
 * One directory inside one transaction: its rows, its files, and what the transaction adds to the history and the
 * outbox.
 */
import type { Micros } from '../../../foundation/base/clock.ts';
import type { UploadEvent } from '../../../deliveries/webhooks/outbox.ts';
import type { Transaction } from 'kysely';
import type { Tables } from '../../../foundation/db/schema.ts';
import { type ArrivalState, arrivalState, arrive, type Holding, type Place } from '../arrival.ts';
import { type FilePath, type IsTemporary, pathOf } from '../file-path.ts';
import { type FileRow, Files } from '../record/files.ts';
import { type FileStat, fileStat, STALE_MTIME, UNKNOWN_INODE } from '../record/file-stat.ts';
import { type HistoryRow, historyRow, type Repeating, unrecorded } from '../record/transfer-history.ts';
import type { Lost } from './lost.ts';
import type { Announcement, Ending, TrackedFile } from './operations.ts';

export type UploadDirectory = Place['directory'];

/** A file's status from lstat(2). */
export interface Found {
  readonly ino: number;
  readonly size: number;
  readonly mtimeMs: number;
  readonly ctimeMs: number;
  /** 0 where the file system does not keep it. */
  readonly birthtimeMs: number;
  /** The room that it takes on the disk, in units of 512 bytes. A hole takes none. */
  readonly blocks: number;
  isFile(): boolean;
  isDirectory(): boolean;
}

/** The effects of a transaction besides its rows. */
export interface Requests {
  /** Compares `path` with its row, in `inMs` ms. */
  look(path: FilePath, inMs: number): void;
  /** The path has been compared with its row in this transaction: earlier hints need not look again. */
  compared(path: FilePath): void;
  /** Compares the directory with the disk. */
  compare(): void;
  /** A file was found under a temporary name. The end of the session with that pid announces it. */
  waits(pid: number, path: FilePath): void;
  /** Runs an action after the commit. */
  committed(action: () => void): void;
}

export interface WorldOfDirectory extends Holding {
  lstat(path: FilePath): Found | undefined;
  isTemporary(path: FilePath): boolean;
  /** Whether uploads of that name are only listed. */
  readonly isUnannounced?: IsTemporary | undefined;
  /** False while the jails' disk is not mounted. */
  isDiskThere(): boolean;
  /** The story's file at a path. */
  trackedAt(path: FilePath): TrackedFile | undefined;
  /** Whether a session that has opened a name like that, which the log has cut off, may be writing the file. */
  mayWrite(path: FilePath, inode: number): boolean;
  /** Whether an upload that may have left this file has ended, and is still to be recorded. */
  isEndPending(stat: FileStat): boolean;
  /** Whether a client may have set the times or the size of that file a moment ago. */
  wasSet(path: FilePath): boolean;
  /** The processes of the directory's live sessions. */
  pids(): readonly number[];
  readonly lost: Lost;
  /** Whether an unexplained file may be incomplete. */
  isDoubted(file: Found): boolean;
  readonly now: Micros;
  /** A monotonic clock, in ms. */
  readonly ms: number;
}

export class DirectoryInTransaction {
  readonly files: Files;
  readonly history: HistoryRow[] = [];
  readonly uploads: UploadEvent[] = [];
  /** Endings of `Lost` whose file has been found. */
  readonly matched: Ending[] = [];
  /** Rows of `Lost` whose file has been found. */
  readonly found: FileRow[] = [];
  readonly world: WorldOfDirectory;
  readonly requests: Requests;
  readonly row: UploadDirectory;
  readonly #tx: Transaction<Tables>;
  readonly #repeating: Repeating;
  readonly #paid = new Set<Ending>();

  constructor(
    tx: Transaction<Tables>,
    row: UploadDirectory,
    world: WorldOfDirectory,
    requests: Requests,
    repeating: Repeating,
  ) {
    this.#tx = tx;
    this.row = row;
    this.world = world;
    this.requests = requests;
    this.#repeating = repeating;
    this.files = new Files(tx, row.id);
  }

  /** The regular file at a path. */
  fileAt(path: FilePath): FileStat | undefined {
    const found = this.world.lstat(path);
    return found?.isFile() ? fileStat(found) : undefined;
  }

  /** When the file or folder at a path was created; 0 if there is none, or that is not known. */
  bornAt(path: FilePath): Micros {
    return (this.world.lstat(path)?.birthtimeMs ?? 0) * 1000;
  }

  /**
   * Whether a write to the file at a path may have been cut short: a request was refused, and the file is larger than
   * what was written, although it has no hole. Of a name that the log has cut off it has no number of bytes.
   */
  mayBeShort(
    { isDoubted, isOfUnknownSize = false, bytes = Infinity, othersBytes = 0 }: Ending,
    path: FilePath,
  ): boolean {
    const found = isDoubted ? this.world.lstat(path) : undefined;
    if (found?.isFile() !== true) return false;
    if (isOfUnknownSize) return found.size > 0;
    return found.size > Math.max(bytes, othersBytes) && found.blocks * 512 >= found.size;
  }

  /** Whether an earlier process, or an attempt whose answer was lost, has announced that upload. */
  async wasAnnounced(upload: Announcement): Promise<boolean> {
    const news = await unrecorded(this.#tx, this.row, [{ ...upload, event: 'uploaded' as const }], this.#repeating);
    return news.length === 0;
  }

  /** Whether an earlier process, or an attempt whose answer was lost, may have recorded what happened at that time. */
  mayBeRepeated({ at }: { readonly at: Micros }): boolean {
    return at <= (this.#repeating.inDoubtUntil ?? -Infinity);
  }

  /** The state that the row of a complete upload gets. */
  get arrivalState(): ArrivalState {
    return arrivalState(this.world);
  }

  /**
   * Announces a complete upload, or leaves its row in check. `row` is undefined when the file was gone
   * before it got a row.
   */
  async arrived(upload: Announcement, row: FileRow | undefined): Promise<void> {
    const [news] = await unrecorded(this.#tx, this.row, [{ ...upload, event: 'uploaded' as const }], this.#repeating);
    if (!news) return;
    const { isChecked, settles, isUnannounced } = this.world;
    const place = { directory: this.row, files: this.files, isChecked, settles, isUnannounced };
    const { history, uploads } = arrive(place, upload, row);
    this.history.push(history);
    this.uploads.push(...uploads);
  }

  async record(
    event: Announcement & {
      readonly event: 'upload-dropped' | 'renamed' | 'removed';
      readonly reason?: string | undefined;
    },
  ): Promise<void> {
    const [news] = await unrecorded(this.#tx, this.row, [event], this.#repeating);
    if (news) this.history.push(historyRow(this.row, news));
  }

  /** The uploads that a file owes. Once the transaction is committed, it does not owe them any more. */
  takeOwed({ owed }: TrackedFile): readonly Ending[] {
    const taken = [...owed].filter((end) => !this.#paid.has(end));
    for (const end of taken) {
      this.#paid.add(end);
      this.requests.committed(() => void owed.delete(end));
    }
    return taken;
  }

  /**
   * Writes the row of a file, in place of the row `before`. If that has another file, it is remembered: its own file may turn up
   * elsewhere.
   */
  put(file: Parameters<Files['put']>[0], before: FileRow | undefined): Promise<FileRow> {
    if (before && (before.inode !== file.inode || before.mtime === STALE_MTIME)) this.#remember(before);
    return this.files.put(file, before);
  }

  /** Removes a row whose file is gone. The row comes back if the file turns up elsewhere. */
  async forget(row: FileRow): Promise<void> {
    this.#remember(row);
    await this.files.remove(row);
  }

  /** A file that turns up after its removal has ended is a new one: it must not be removed again. */
  #remember(row: FileRow): void {
    if (row.state !== 'removed' && !this.isStillAt(row)) this.world.lost.addRow(row);
  }

  /**
   * Whether the file at the row's path is the row's, although nobody saw it when its upload ended: it was there by then. It may have
   * been overwritten since.
   */
  isStillAt({ inode, path, uploaded_at }: FileRow): boolean {
    const bornAt = inode === UNKNOWN_INODE ? this.bornAt(pathOf(path)) : 0;
    return bornAt > 0 && bornAt <= uploaded_at;
  }
}
