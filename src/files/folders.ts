/**
 * The files in a folder of a directory. A folder is what stands before a slash in the recorded paths. They are read along the index
 * of paths, and past a folder at once whatever it holds, so a page takes as long among a million files.
 */
import type { Kysely } from 'kysely';
import { compiled } from '../db/compiled.ts';
import { byPath, pathWithin } from '../db/file-paths.ts';
import type { FilesTable, Tables } from '../db/schema.ts';

const COLUMNS = ['id', 'path', 'size_bytes', 'uploaded_at', 'state'] as const satisfies readonly (keyof FilesTable)[];

export type ListedFile = Pick<FilesTable, (typeof COLUMNS)[number]>;

/** A file, or a folder by its path. */
export type ListedEntry = { readonly file: ListedFile } | { readonly folder: Buffer };

/** `next`: from which path the next page goes on. */
export interface Page<T> {
  readonly entries: readonly T[];
  readonly next?: Buffer | undefined;
}

interface Range {
  readonly from: Buffer;
  /** Up to and without this one. */
  readonly to: Buffer;
}

/** Rows that are read at once: few, since those of one folder are passed over. */
const LOT = 10;

const inRange = compiled<Range & { directory: string; limit: number }>()((db, p) =>
  db
    .selectFrom('files')
    .select(COLUMNS)
    .where('directory_id', '=', p('directory'))
    .where(pathWithin(db, p('from'), p('to')))
    .orderBy(byPath(db))
    .limit(p('limit')),
);

/** The entries of a folder, '' for the topmost, in the order of their bytes. */
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
    const rows = await inRange.all(reads, { directory, from: at, to, limit: LOT });
    hasMore = rows.length === LOT;
    for (const file of rows) {
      // It is in a folder that is listed already.
      if (Buffer.compare(file.path, at) < 0) continue;
      if (entries.length === limit) return { entries, next: file.path };
      const slash = file.path.indexOf('/', base.length);
      const inner = slash < 0 ? undefined : file.path.subarray(0, slash + 1);
      entries.push(inner ? { folder: inner.subarray(0, -1) } : { file });
      // No name holds a zero byte.
      at = inner ? endOf(inner) : Buffer.concat([file.path, Buffer.of(0)]);
    }
  }
  return { entries };
}

function later(a: Buffer, b: Buffer): Buffer {
  return Buffer.compare(a, b) < 0 ? b : a;
}

/** Comes after every path that begins so. No name is longer than 255 bytes, and none begins with a slash. */
function endOf(start: Buffer): Buffer {
  const last = start.at(-1);
  return last === undefined ? Buffer.alloc(256, 0xff) : Buffer.concat([start.subarray(0, -1), Buffer.of(last + 1)]);
}
