/**
 * Lists a folder of a directory. Folders are the parts of recorded paths before a slash. The list is read along the index of
 * paths and skips the contents of each subfolder, so a page is as fast among a million files as among few.
 */
import type { Kysely } from 'kysely';
import { compiled } from '../../foundation/db/compiled.ts';
import { byPath, pathWithin } from '../../foundation/db/file-paths.ts';
import type { FilesTable, FileState, Tables } from '../../foundation/db/schema.ts';

const COLUMNS = ['id', 'path', 'size_bytes', 'uploaded_at', 'state'] as const satisfies readonly (keyof FilesTable)[];

export type ListedState = Exclude<FileState, 'removed'>;

export interface ListedFile extends Pick<FilesTable, (typeof COLUMNS)[number]> {
  readonly state: ListedState;
}

/** A file, or the path of a folder. */
export type ListedEntry = { readonly file: ListedFile } | { readonly folder: Buffer };

/** The next page begins at the path `next`. */
export interface Page<T> {
  readonly entries: readonly T[];
  readonly next?: Buffer | undefined;
}

interface Range {
  readonly from: Buffer;
  /** Excluded. */
  readonly to: Buffer;
}

/** Rows that are read at once: few, since rows below a listed folder are discarded. */
const BATCH = 10;

const inRange = compiled<Range & { directory: string; limit: number }>()((db, p) =>
  db
    .selectFrom('files')
    .select(COLUMNS)
    .where('directory_id', '=', p('directory'))
    .where(pathWithin(db, p('from'), p('to')))
    .where('state', '!=', 'removed')
    .$narrowType<{ state: ListedState }>()
    .orderBy(byPath(db))
    .limit(p('limit')),
);

/** The entries of a folder, '' being the directory itself, in the order of their bytes. */
export async function folderPage(
  reads: Kysely<Tables>,
  directory: string,
  folder: Buffer,
  { from, limit }: { from: Buffer; limit: number },
): Promise<Page<ListedEntry>> {
  const base = folder.length === 0 ? folder : Buffer.concat([folder, Buffer.from('/')]);
  const to = endOf(base);
  const entries: ListedEntry[] = [];
  let at = later(base, from);
  for (let hasMore = true; hasMore;) {
    const rows = await inRange.all(reads, { directory, from: at, to, limit: BATCH });
    hasMore = rows.length === BATCH;
    for (const file of rows) {
      // This file is in a folder that is listed already.
      if (Buffer.compare(file.path, at) < 0) continue;
      if (entries.length === limit) return { entries, next: file.path };
      const slash = file.path.indexOf('/', base.length);
      const inner = slash < 0 ? undefined : file.path.subarray(0, slash + 1);
      entries.push(inner ? { folder: inner.subarray(0, -1) } : { file });
      // The smallest path after the file's: no name has a zero byte.
      at = inner ? endOf(inner) : Buffer.concat([file.path, Buffer.of(0)]);
    }
  }
  return { entries };
}

function later(a: Buffer, b: Buffer): Buffer {
  return Buffer.compare(a, b) < 0 ? b : a;
}

/** A bound above every path with this start. No name is longer than 255 bytes. */
function endOf(start: Buffer): Buffer {
  const last = start.at(-1);
  return last === undefined ? Buffer.alloc(256, 0xff) : Buffer.concat([start.subarray(0, -1), Buffer.of(last + 1)]);
}
