/** One directory inside one transaction: its rows, its disk, and what the transaction adds to the history and the outbox. */
import type { Micros } from '../../clock.ts';
import type { UploadEvent } from '../../webhooks/outbox.ts';
import type { Transaction } from 'kysely';
import type { Tables } from '../../db/schema.ts';
import { type ArrivalState, arrivalState, arrive, type Place } from '../arrival.ts';
import type { FilePath } from '../file-path.ts';
import { type FileRow, Files } from '../record/files.ts';
import { type FileStat, fileStat } from '../record/file-stat.ts';
import { type HistoryRow, historyRow, type Repeating, unrecorded } from '../record/history.ts';
import type { Lost } from './lost.ts';
import type { Announcement, Ending, TrackedFile } from './operations.ts';

export type UploadDirectory = Place['directory'];

/** What a file looks like to lstat(2). */
export interface Found {
  readonly ino: number;
  readonly size: number;
  readonly mtimeMs: number;
  readonly ctimeMs: number;
  isFile(): boolean;
  isDirectory(): boolean;
}

/** What follows from a transaction, besides its rows. */
export interface Requests {
  /** `path` is to be looked at, in so many ms. */
  look(path: FilePath, inMs: number): void;
  /** The directory is to be compared with the disk. */
  compare(): void;
  /** A file was found under a temporary name; the end of that session announces it. */
  waits(pid: number, path: FilePath): void;
}

export interface WorldOfDirectory {
  lstat(path: FilePath): Found | undefined;
  isTemporary(path: FilePath): boolean;
  /** Whether uploads are checked before they are announced. */
  readonly isChecked: boolean;
  /** False while the disk of the jails is not mounted. */
  isDiskThere(): boolean;
  /** What the story knows of a path. */
  trackedAt(path: FilePath): TrackedFile | undefined;
  /** The processes of its live sessions. */
  pids(): readonly number[];
  readonly lost: Lost;
  /** Whether a file that nothing explains may be a part of one. @param changedAt its ctime, in µs. */
  isDoubted(changedAt: Micros): boolean;
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

  /** The regular file that is there. */
  fileAt(path: FilePath): FileStat | undefined {
    const found = this.world.lstat(path);
    return found?.isFile() ? fileStat(found) : undefined;
  }

  /** Whether an earlier process, or an attempt whose answer was lost, has announced that upload. */
  async wasAnnounced(upload: Announcement): Promise<boolean> {
    const news = await unrecorded(this.#tx, this.row, [{ ...upload, event: 'uploaded' as const }], this.#repeating);
    return news.length === 0;
  }

  /** The state of the row of an upload that is complete. */
  get arrivalState(): ArrivalState {
    return arrivalState(this.world);
  }

  /** An upload is complete, and has a row in that state if its file is there: it is announced, or checked first. */
  async arrived(upload: Announcement, row: FileRow | undefined): Promise<void> {
    const [news] = await unrecorded(this.#tx, this.row, [{ ...upload, event: 'uploaded' as const }], this.#repeating);
    if (!news) return;
    const { isChecked } = this.world;
    const { history, uploads } = arrive({ directory: this.row, files: this.files, isChecked }, upload, row);
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

  /** A row goes because its file is not there; should the file turn up elsewhere, the row comes back. */
  async forget(row: FileRow): Promise<void> {
    this.world.lost.addRow(row);
    await this.files.remove(row);
  }
}
