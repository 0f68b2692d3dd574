/** What the rules get to see of one transaction: rows, the disk, and a place for the webhooks that follow. */
import type { Stats } from 'node:fs';
import type { Transaction } from 'kysely';
import { lstatBeneath } from '../beneath.ts';
import type { Micros } from '../clock.ts';
import type { DirectoriesTable, Tables } from '../db/schema.ts';
import type { UploadEvent } from '../webhooks/outbox.ts';
import { displayName } from './file-path.ts';
import { Files, type FileStat } from './files.ts';

export type UploadDirectory = UploadEvent['directory'] & Pick<DirectoriesTable, 'sftp_username'>;

/** The folder that holds an SFTP user's files. */
export type FilesRoot = (username: string) => string;

export class Batch {
  readonly files: Files;
  /** Webhooks to enqueue with this transaction. */
  readonly uploads: UploadEvent[] = [];
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
    if (!this.#directories.has(id)) {
      const columns = [
        'id',
        'account_id',
        'slug',
        'external_id',
        'webhook_url',
        'webhook_secret',
        'sftp_username',
      ] as const;
      const row = await this.#tx
        .selectFrom('directories')
        .select(columns)
        .where('id', '=', id)
        .where('deleted_at', 'is', null)
        .executeTakeFirst();
      this.#directories.set(id, row);
    }
    return this.#directories.get(id);
  }

  look(directory: UploadDirectory, path: Buffer): Stats | undefined {
    return lstatBeneath(this.#root(directory.sftp_username), path);
  }

  announce(directory: UploadDirectory, path: Buffer, sizeBytes: number, uploadedAt: Micros): void {
    this.uploads.push({ directory, filename: displayName(path), sizeBytes, uploadedAt, now: uploadedAt });
  }
}

/** The part of lstat's answer that rows keep. */
export function fileStat(stats: Stats): FileStat {
  return { inode: stats.ino, mtime: Math.floor(stats.mtimeMs * 1000), size_bytes: stats.size };
}

/** Whether the file is the one the row was written for, unchanged. */
export function isSame(row: FileStat, stat: FileStat): boolean {
  return row.inode === stat.inode && row.mtime === stat.mtime && row.size_bytes === stat.size_bytes;
}
