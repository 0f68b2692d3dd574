/** Complete files of a directory by their paths: uploads, and what the API has put there. */
import { setImmediate } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import { compiled } from '../db/compiled.ts';
import { byPathIndex, pathAfter, pathIs } from '../db/file-paths.ts';
import type { FilesTable, Tables } from '../db/schema.ts';
import { BerthError } from '../base/errors.ts';
import { bytesOf, displayName, type FilePath } from '../uploads/file-path.ts';

const COLUMNS = [
  'id',
  'path',
  'size_bytes',
  'uploaded_at',
  'state',
  'inode',
  'mtime',
] as const satisfies readonly (keyof FilesTable)[];

type Row = Pick<FilesTable, (typeof COLUMNS)[number]>;

export interface CompleteFile extends Row {
  readonly state: 'uploaded' | 'placed';
}

/** Rows that are looked through at once: some 1 ms. */
const LOT = 500;

const after = compiled<{ directory: string; after: Buffer; limit: number }>()((db, p) =>
  db
    .selectFrom('files')
    .select(COLUMNS)
    .where('directory_id', '=', p('directory'))
    .where(pathAfter(db, p('after')))
    .orderBy(byPathIndex(db))
    .limit(p('limit')),
);

const at = compiled<{ directory: string; path: Buffer }>()((db, p) =>
  db
    .selectFrom('files')
    .select(COLUMNS)
    .where('directory_id', '=', p('directory'))
    .where(pathIs(db, p('path'))),
);

function isComplete(row: Row | undefined): row is CompleteFile {
  return row?.state === 'uploaded' || row?.state === 'placed';
}

export interface FilesPage {
  /** The beginning of the shown path. */
  readonly prefix?: string | undefined;
  /** The path after which to go on. */
  readonly after?: Buffer | undefined;
  readonly limit: number;
}

/** Lists files in the order of the index of paths. */
export async function completeFiles(
  reads: Kysely<Tables>,
  directory: string,
  { prefix = '', after: start = Buffer.alloc(0), limit }: FilesPage,
): Promise<CompleteFile[]> {
  const found: CompleteFile[] = [];
  for (let last = start; ;) {
    const rows = await after.all(reads, { directory, after: last, limit: LOT });
    found.push(...rows.filter(isComplete).filter(({ path }) => displayName(path).startsWith(prefix)));
    last = rows.at(-1)?.path ?? last;
    if (found.length >= limit || rows.length < LOT) return found.slice(0, limit);
    await setImmediate();
  }
}

/** The one at that path, if there is one. */
export async function fileIfAny(
  reads: Kysely<Tables>,
  directory: string,
  path: FilePath,
): Promise<CompleteFile | undefined> {
  const row = await at.first(reads, { directory, path: bytesOf(path) });
  return isComplete(row) ? row : undefined;
}

/** @throws {BerthError} `file_not_found`. */
export async function fileAt(reads: Kysely<Tables>, directory: string, path: FilePath): Promise<CompleteFile> {
  const file = await fileIfAny(reads, directory, path);
  if (!file) throw new BerthError('file_not_found', 'File not found');
  return file;
}

/** The file of a row. @throws {BerthError} `file_not_found`. */
export async function completeFileOf(reads: Kysely<Tables>, directory: string, id: string): Promise<CompleteFile> {
  const row = await reads
    .selectFrom('files')
    .select(COLUMNS)
    .where('id', '=', id)
    .where('directory_id', '=', directory)
    .executeTakeFirst();
  if (!isComplete(row)) throw new BerthError('file_not_found', 'File not found');
  return row;
}
