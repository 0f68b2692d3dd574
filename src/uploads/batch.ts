/** What the rules get to see of one transaction: rows, the disk, and a place for the webhooks that follow. */
import type { Stats } from 'node:fs';
import type { Transaction } from 'kysely';
import { lstatBeneath } from '../beneath.ts';
import { type Micros, SECOND } from '../clock.ts';
import { prepared } from '../db/prepared.ts';
import type { DirectoriesTable, Tables, TransferEvent } from '../db/schema.ts';
import type { Transfer } from '../history/transfers.ts';
import type { UploadEvent } from '../webhooks/outbox.ts';
import type { BySession, SessionNote } from './change.ts';
import { displayName } from './file-path.ts';
import { Files, type FileStat } from './files.ts';

export type UploadDirectory = UploadEvent['directory'] & Pick<DirectoriesTable, 'sftp_username'>;

/** The folder that holds an SFTP user's files. */
export type FilesRoot = (username: string) => string;

/** A row of the history, and what else its log line says. */
export interface Recorded {
  readonly row: Transfer;
  readonly externalId: string | null;
}

/** What `note` is told beside the directory. */
interface Happening {
  readonly event: TransferEvent;
  readonly at: Micros;
  readonly path: Buffer;
  readonly from?: Buffer | undefined;
  readonly bytes?: number;
  readonly by?: BySession | undefined;
  readonly beganAt?: Micros | undefined;
}

const live = prepared<{ id: string }>()((db, p) =>
  db
    .selectFrom('directories')
    .select(['id', 'account_id', 'slug', 'external_id', 'webhook_url', 'webhook_secret', 'sftp_username'])
    .where('id', '=', p('id'))
    .where('deleted_at', 'is', null),
);
const evenDeleted = prepared<{ id: string }>()((db, p) =>
  db.selectFrom('directories').select(['id', 'account_id', 'external_id', 'sftp_username']).where('id', '=', p('id')),
);

export class Batch {
  readonly files: Files;
  /** Rows for the history, to be written with this transaction. */
  readonly recorded: Recorded[] = [];
  /** Webhooks to enqueue with this transaction. */
  readonly uploads: UploadEvent[] = [];
  /** Set when the last change cannot be applied before the log has been read up to now; to be called then. */
  uncertain: (() => void) | undefined;
  readonly #tx: Transaction<Tables>;
  readonly #root: FilesRoot;
  readonly #directories = new Map<string, UploadDirectory | undefined>();

  constructor(tx: Transaction<Tables>, root: FilesRoot) {
    this.#tx = tx;
    this.#root = root;
    this.files = new Files(tx);
  }

  /** The directory, or undefined when it has been deleted: then nothing in it matters any more. */
  async directory(id: string): Promise<UploadDirectory | undefined> {
    if (!this.#directories.has(id)) this.#directories.set(id, await live.first(this.#tx, { id }));
    return this.#directories.get(id);
  }

  look(directory: UploadDirectory, path: Buffer): Stats | undefined {
    return lstatBeneath(this.#root(directory.sftp_username), path);
  }

  /** The upload is complete: its webhook, and its row in the history. */
  announce(directory: UploadDirectory, { bytes, ...upload }: Omit<Happening, 'event'> & { bytes: number }): void {
    const filename = displayName(upload.path);
    this.uploads.push({ directory, filename, sizeBytes: bytes, uploadedAt: upload.at, now: upload.at });
    this.note(directory, { ...upload, bytes, event: 'uploaded' });
  }

  note(directory: UploadDirectory, { event, at, path, from, bytes, by, beganAt }: Happening): void {
    const row = {
      ...whose(directory, by),
      at,
      event,
      path: displayName(path),
      from_path: from ? displayName(from) : null,
      bytes: bytes ?? null,
      began_at: beganAt ?? null,
    };
    this.recorded.push({ row, externalId: directory.external_id });
  }

  /** What sessions did that changes no file. A deleted directory's sessions end too. */
  async noteSession({ event, directoryId, at, by, path, bytes, beganAt }: SessionNote): Promise<void> {
    const directory = (await this.directory(directoryId)) ?? (await evenDeleted.first(this.#tx, { id: directoryId }));
    if (!directory) return;
    const row = {
      ...whose(directory, by),
      at,
      event,
      path: path ? displayName(path) : null,
      from_path: null,
      bytes: bytes ?? null,
      began_at: beganAt ?? null,
    };
    this.recorded.push({ row, externalId: directory.external_id });
  }
}

type Whose = Pick<DirectoriesTable, 'id' | 'account_id' | 'external_id' | 'sftp_username'>;

function whose({ id, account_id, sftp_username }: Whose, by: BySession | undefined) {
  return {
    directory_id: id,
    account_id,
    username: sftp_username,
    address: by === undefined || by.address === '' ? null : by.address,
    session_pid: by?.pid ?? null,
  };
}

/** The part of lstat's answer that rows keep. */
export function fileStat(stats: Stats): FileStat {
  return { inode: stats.ino, mtime: Math.floor(stats.mtimeMs * 1000), size_bytes: stats.size };
}

/**
 * The inode of a row that came with a restored backup, and whose file may have been copied: none that a file has, and
 * different for rows that differ in mtime, so that the index finds them by it.
 */
export function unknownInode(mtime: Micros): number {
  return -1 - Math.max(mtime, 0);
}

/** Whether the file is the one the row was written for, unchanged. A copied one is, with that size and mtime. */
export function isSame(row: FileStat, stat: FileStat): boolean {
  if (row.size_bytes !== stat.size_bytes) return false;
  if (row.inode >= 0) return row.inode === stat.inode && row.mtime === stat.mtime;
  // Some copy whole seconds only.
  return row.mtime === stat.mtime || (row.mtime > 0 && row.mtime - (row.mtime % SECOND) === stat.mtime);
}

/** Whether it is the row's file, changed or not; a copied one cannot be told when it has changed. */
export function isFileOf(row: FileStat, stat: FileStat): boolean {
  return row.inode >= 0 ? row.inode === stat.inode : isSame(row, stat);
}
