/**
 * The rows of one directory's files, inside the transaction that changes them. Keeps `storage_bytes` equal to the sum
 * of the sizes of those that are not removed, and `last_upload_at` equal to the time of the latest announced upload.
 */
import { randomUUID } from 'node:crypto';
import { type Selectable, sql, type Transaction } from 'kysely';
import type { Micros } from '../../../foundation/base/clock.ts';
import { compiled } from '../../../foundation/db/compiled.ts';
import { byPathIndex, pathAfter, pathBelow, pathIs } from '../../../foundation/db/file-paths.ts';
import type { FilesTable, PlacementsTable, Tables } from '../../../foundation/db/schema.ts';
import { bytesOf, type FilePath } from '../file-path.ts';
import { type FileIdentity, UNKNOWN_INODE, unknownInode } from './file-stat.ts';

export type FileRow = Selectable<FilesTable>;

export type Placement = FileIdentity & Pick<Selectable<PlacementsTable>, 'via' | 'address' | 'recorded'>;

/** Whether the file's name is known outside of berth. An upload's is, once it is announced, until the file is removed. */
export function isKnownByName({ state }: Pick<FileRow, 'state'>): boolean {
  return state !== 'waiting' && state !== 'checking' && state !== 'removed';
}

/** What the file adds to `storage_bytes`. */
function countedBytes({ state, size_bytes }: Pick<FileRow, 'state' | 'size_bytes'>): number {
  return state === 'removed' ? 0 : size_bytes;
}

/** A literal, so that the partial index on this state can be used. */
const WAITING = sql.lit('waiting' as const);

const fileAt = compiled<{ directory: string; path: Buffer }>()((db, p) =>
  db
    .selectFrom('files')
    .selectAll()
    .where('directory_id', '=', p('directory'))
    .where(pathIs(db, p('path'))),
);
const withInode = compiled<{ directory: string; inode: number; unknown: number }>()((db, p) =>
  db
    .selectFrom('files')
    .selectAll()
    .where('directory_id', '=', p('directory'))
    .where('inode', 'in', [p('inode'), p('unknown'), UNKNOWN_INODE])
    .limit(10),
);
const placementOf = compiled<{ directory: string; inode: number }>()((db, p) =>
  db
    .selectFrom('placements')
    .select(['inode', 'mtime', 'size_bytes', 'via', 'address', 'recorded'])
    .where('directory_id', '=', p('directory'))
    .where('inode', '=', p('inode')),
);
const keepPlacement = compiled<{ directory: string; inode: number }>()((db, p) =>
  db
    .updateTable('placements')
    .set({ recorded: sql.lit(1 as const), address: sql.lit(null) })
    .where('directory_id', '=', p('directory'))
    .where('inode', '=', p('inode')),
);
const removePlacement = compiled<{ directory: string; inode: number }>()((db, p) =>
  db.deleteFrom('placements').where('directory_id', '=', p('directory')).where('inode', '=', p('inode')),
);
/** All columns except the directory, which does not change. */
const columns = (p: <K extends keyof FileRow>(name: K) => FileRow[K]) => ({
  id: p('id'),
  path: p('path'),
  size_bytes: p('size_bytes'),
  state: p('state'),
  uploaded_at: p('uploaded_at'),
  inode: p('inode'),
  mtime: p('mtime'),
  ctime: p('ctime'),
  returns_to: p('returns_to'),
  named_at: p('named_at'),
  check_failure: p('check_failure'),
  source: p('source'),
  session_pid: p('session_pid'),
});
const insertFile = compiled<FileRow>()((db, p) =>
  db.insertInto('files').values({ ...columns(p), directory_id: p('directory_id') }),
);
const updateFile = compiled<FileRow & { of: string }>()((db, p) =>
  db.updateTable('files').set(columns(p)).where('id', '=', p('of')),
);
const addTotals = compiled<{ id: string; bytes: number; at: Micros }>()((db, p) =>
  db
    .updateTable('directories')
    .set((eb) => ({
      storage_bytes: eb('storage_bytes', '+', p('bytes')),
      last_upload_at: eb.case().when('last_upload_at', '<', p('at')).then(p('at')).else(eb.ref('last_upload_at')).end(),
    }))
    .where('id', '=', p('id')),
);

/** Recorded files of a directory after a path, in the order of the index on paths. */
export const filesAfter = compiled<{ directory: string; after: Buffer; limit: number }>()((db, p) =>
  db
    .selectFrom('files')
    .select(['path', 'inode', 'mtime', 'ctime', 'size_bytes', 'uploaded_at'])
    .where('directory_id', '=', p('directory'))
    .where(pathAfter(db, p('after')))
    .orderBy(byPathIndex(db))
    .limit(p('limit')),
);

/**
 * The rows of a directory's files. Call `flush` at the end of the transaction: it updates the totals in the directory's
 * row.
 */
export class Files {
  readonly #tx: Transaction<Tables>;
  readonly #directory: string;
  #growth = 0;
  #lastUpload: Micros = 0;

  constructor(tx: Transaction<Tables>, directoryId: string) {
    this.#tx = tx;
    this.#directory = directoryId;
  }

  at(path: FilePath): Promise<FileRow | undefined> {
    return fileAt.first(this.#tx, { directory: this.#directory, path: bytesOf(path) });
  }

  /** Rows that may be of the same file under other names. */
  ofInode({ inode, mtime }: FileIdentity): Promise<FileRow[]> {
    return withInode.all(this.#tx, { directory: this.#directory, inode, unknown: unknownInode(mtime) });
  }

  /**
   * The placement of an inode that came by HTTPS. It exists until the file is recorded and, for an upload by link,
   * somewhat longer.
   */
  placementOf({ inode }: FileIdentity): Promise<Placement | undefined> {
    return placementOf.first(this.#tx, { directory: this.#directory, inode });
  }

  /** Removes the placement of a file that has been recorded, and now has a row. */
  async removePlacement({ inode }: FileIdentity): Promise<void> {
    await removePlacement.all(this.#tx, { directory: this.#directory, inode });
  }

  /**
   * Marks the placement of an upload by link as recorded, and keeps it while older log lines about the path may still
   * be read.
   */
  async keepPlacement({ inode }: FileIdentity): Promise<void> {
    await keepPlacement.all(this.#tx, { directory: this.#directory, inode });
  }

  /**
   * Writes a row, in place of another if `before` is given. Its id is new unless `file` has one, and it has had its name since its
   * upload unless `file` says otherwise.
   */
  async put(
    file: Omit<FileRow, 'id' | 'directory_id' | 'returns_to' | 'named_at' | 'check_failure'> &
      Partial<Pick<FileRow, 'id' | 'returns_to' | 'named_at'>>,
    before: FileRow | undefined,
  ): Promise<FileRow> {
    const of = { id: randomUUID(), returns_to: null, named_at: file.uploaded_at };
    const row = { ...of, ...file, check_failure: null, directory_id: this.#directory };
    if (before) await updateFile.all(this.#tx, { ...row, of: before.id });
    else await insertFile.all(this.#tx, row);
    this.#growth += countedBytes(row) - (before ? countedBytes(before) : 0);
    return row;
  }

  /** A new `uploaded_at` is a new `named_at`, too, unless `values` says otherwise. A new path needs one of its own. */
  async update(row: FileRow, values: Partial<Omit<FileRow, 'id' | 'directory_id'>>): Promise<FileRow> {
    const changed = { ...row, named_at: values.uploaded_at ?? row.named_at, ...values };
    // A file that is only checked again has been announced.
    if (changed.returns_to !== null) changed.named_at = 0;
    await updateFile.all(this.#tx, { ...changed, of: row.id });
    this.#growth += countedBytes(changed) - countedBytes(row);
    return changed;
  }

  async remove(row: FileRow): Promise<void> {
    await this.#tx.deleteFrom('files').where('id', '=', row.id).execute();
    this.#growth -= countedBytes(row);
  }

  /** Up to `limit` rows below a folder and after a path ('' for the first), in the order of the index on paths. */
  below(folder: FilePath, after: FilePath, limit: number): Promise<FileRow[]> {
    return this.#tx
      .selectFrom('files')
      .selectAll()
      .where('directory_id', '=', this.#directory)
      .where(pathBelow(this.#tx, bytesOf(folder), after === '' ? undefined : bytesOf(after)))
      .orderBy(byPathIndex(this.#tx))
      .limit(limit)
      .execute();
  }

  /** Up to `limit` files under temporary names that wait for that session, the oldest first. */
  waitingFor(pid: number, limit: number): Promise<FileRow[]> {
    return this.#tx
      .selectFrom('files')
      .selectAll()
      .where('directory_id', '=', this.#directory)
      .where('state', '=', WAITING)
      .where('session_pid', '=', pid)
      .orderBy('uploaded_at')
      .orderBy('id')
      .limit(limit)
      .execute();
  }

  announced({ at }: { readonly at: Micros }): void {
    this.#lastUpload = Math.max(this.#lastUpload, at);
  }

  async flush(): Promise<void> {
    const totals = { id: this.#directory, bytes: this.#growth, at: this.#lastUpload };
    if (totals.bytes !== 0 || totals.at > 0) await addTotals.all(this.#tx, totals);
    this.#growth = 0;
    this.#lastUpload = 0;
  }
}
