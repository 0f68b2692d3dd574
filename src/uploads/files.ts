/**
 * The rows of files, inside the transaction that changes them. Each function keeps `storage_bytes` equal to the sum of
 * the directory's sizes.
 */
import { randomUUID } from 'node:crypto';
import type { Transaction } from 'kysely';
import { prepared } from '../db/prepared.ts';
import type { FilesTable, Tables } from '../db/schema.ts';

export type FileRow = FilesTable;

/** What lstat says of a file, as far as rows keep it. */
export type FileStat = Pick<FilesTable, 'inode' | 'mtime' | 'size_bytes'>;

export type NewFile = Omit<FilesTable, 'id'>;

const fileAt = prepared<{ directoryId: string; path: Buffer }>()((db, p) =>
  db.selectFrom('files').selectAll().where('directory_id', '=', p('directoryId')).where('path', '=', p('path')),
);
const insertFile = prepared<FilesTable>()((db, p) =>
  db.insertInto('files').values({
    id: p('id'),
    directory_id: p('directory_id'),
    path: p('path'),
    size_bytes: p('size_bytes'),
    state: p('state'),
    uploaded_at: p('uploaded_at'),
    inode: p('inode'),
    mtime: p('mtime'),
    source: p('source'),
    session_pid: p('session_pid'),
  }),
);

const grow = prepared<{ id: string; bytes: number }>()((db, p) =>
  db
    .updateTable('directories')
    .set((eb) => ({ storage_bytes: eb('storage_bytes', '+', p('bytes')) }))
    .where('id', '=', p('id')),
);

/** One transaction's view of the files table. `flush` at the end of it writes the storage totals. */
export class Files {
  readonly #tx: Transaction<Tables>;
  readonly #growth = new Map<string, number>();

  constructor(tx: Transaction<Tables>) {
    this.#tx = tx;
  }

  at(directoryId: string, path: Buffer): Promise<FileRow | undefined> {
    return fileAt.first(this.#tx, { directoryId, path });
  }

  /** Rows that the same file may have had under other names. */
  withInode(directoryId: string, inode: number): Promise<FileRow[]> {
    return this.#tx
      .selectFrom('files')
      .selectAll()
      .where('directory_id', '=', directoryId)
      .where('inode', '=', inode)
      .limit(10)
      .execute();
  }

  /** What the session left under temporary names. */
  waiting(directoryId: string, pid: number): Promise<FileRow[]> {
    return this.#tx
      .selectFrom('files')
      .selectAll()
      .where('directory_id', '=', directoryId)
      .where('state', '=', 'waiting')
      .where('session_pid', '=', pid)
      .limit(1000)
      .execute();
  }

  /** Puts a row with a new id in place of whatever was at that path. */
  async put(file: NewFile, before: FileRow | undefined): Promise<FileRow> {
    const row = { ...file, id: randomUUID() };
    if (before) await this.#tx.updateTable('files').set(row).where('id', '=', before.id).execute();
    else await insertFile.all(this.#tx, row);
    this.#grow(file.directory_id, file.size_bytes - (before?.size_bytes ?? 0));
    return row;
  }

  /** Changes a row in place. */
  async update(row: FileRow, values: Partial<Omit<FilesTable, 'id' | 'directory_id'>>): Promise<void> {
    await this.#tx.updateTable('files').set(values).where('id', '=', row.id).execute();
    this.#grow(row.directory_id, (values.size_bytes ?? row.size_bytes) - row.size_bytes);
  }

  async remove(row: FileRow): Promise<void> {
    await this.#tx.deleteFrom('files').where('id', '=', row.id).execute();
    this.#grow(row.directory_id, -row.size_bytes);
  }

  /** Up to `limit` rows below a folder, by path, after `after`. `folder` empty: the whole directory. */
  below(directoryId: string, folder: Buffer, after: Buffer | undefined, limit: number): Promise<FileRow[]> {
    let query = this.#tx
      .selectFrom('files')
      .selectAll()
      .where('directory_id', '=', directoryId)
      .orderBy('path')
      .limit(limit);
    if (folder.length > 0) {
      // '0' is the character after '/', so this is the range of everything that starts with `folder/`.
      query = query
        .where('path', '>', Buffer.concat([folder, Buffer.from('/')]))
        .where('path', '<', Buffer.concat([folder, Buffer.from('0')]));
    }
    if (after) query = query.where('path', '>', after);
    return query.execute();
  }

  async flush(): Promise<void> {
    for (const [id, bytes] of this.#growth) {
      if (bytes === 0) continue;
      await grow.all(this.#tx, { id, bytes });
    }
    this.#growth.clear();
  }

  #grow(directoryId: string, bytes: number): void {
    this.#growth.set(directoryId, (this.#growth.get(directoryId) ?? 0) + bytes);
  }
}
