/**
 * The rows of a directory's files: complete ones (uploads, and files that the API put there), partial ones, and those that
 * have arrived but that the checker has not passed yet.
 */
import { setImmediate } from 'node:timers/promises';
import { type Kysely, sql } from 'kysely';
import { compiled } from '../../foundation/db/compiled.ts';
import { byPathIndex, pathAfter, pathIs } from '../../foundation/db/file-paths.ts';
import type { FilesTable, Tables } from '../../foundation/db/schema.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import { bytesOf, displayName, type FilePath } from '../uploads/file-path.ts';
import type { FileRow } from '../uploads/record/files.ts';

/** Literals, so that the partial indexes of these states are used. */
export const CHECKING = sql.lit('checking' as const);
export const PARTIAL = sql.lit('partial' as const);

const COLUMNS = [
  'id',
  'path',
  'size_bytes',
  'uploaded_at',
  'state',
  'inode',
  'mtime',
  'ctime',
] as const satisfies readonly (keyof FilesTable)[];

type Row = Pick<FilesTable, (typeof COLUMNS)[number]>;

export interface CompleteFile extends Row {
  readonly state: 'uploaded' | 'placed';
}

/** The states that the API lists, if it is asked for them. */
export const LISTED_STATES = ['uploaded', 'placed', 'partial'] as const;
export type ListedState = (typeof LISTED_STATES)[number];

export interface ListedFile extends Row {
  readonly state: ListedState;
}

const COMPLETE: readonly ListedState[] = ['uploaded', 'placed'];

/** Rows that are filtered at once, in about 1 ms. */
const BATCH = 500;

const after = compiled<{ directory: string; after: Buffer; limit: number }>()((db, p) =>
  db
    .selectFrom('files')
    .select(COLUMNS)
    .where('directory_id', '=', p('directory'))
    .where(pathAfter(db, p('after')))
    .orderBy(byPathIndex(db))
    .limit(p('limit')),
);

/** Reads the index of partial files, which are few. Materialized, since SQLite would choose the index of all paths. */
const partialAfter = compiled<{ directory: string; after: Buffer; limit: number }>()((db, p) =>
  db
    .with(
      (name) => name('partial').materialized(),
      (cte) =>
        cte.selectFrom('files').select(COLUMNS).where('directory_id', '=', p('directory')).where('state', '=', PARTIAL),
    )
    .selectFrom('partial')
    .selectAll()
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
  /** Without it, complete files. */
  readonly states?: readonly ListedState[] | undefined;
  /** What the shown paths start with. */
  readonly prefix?: string | undefined;
  /** The list continues after this path. */
  readonly after?: Buffer | undefined;
  readonly limit: number;
}

/** PostgreSQL's index has the first 2000 bytes of each path. */
const BEGINNING_BYTES = 1999;

/** Bytes with which each path begins that is shown with that prefix. U+FFFD may stand for any bytes. */
function beginningOf(prefix: string): Buffer {
  return Buffer.from(prefix.replace(/\u{FFFD}.*/su, '')).subarray(0, BEGINNING_BYTES);
}

/** Lists files in the order of the index of paths. Reads no path that begins otherwise. */
export async function filesByPath(
  reads: Kysely<Tables>,
  directory: string,
  { states = COMPLETE, prefix = '', after: start = Buffer.alloc(0), limit }: FilesPage,
): Promise<ListedFile[]> {
  const beginning = beginningOf(prefix);
  const found: ListedFile[] = [];
  const isAsked = (row: Row): row is ListedFile => states.some((state) => state === row.state);
  const add = (rows: readonly Row[]): unknown =>
    found.push(...rows.filter(isAsked).filter(({ path }) => displayName(path).startsWith(prefix)));
  const next = states.every((state) => state === 'partial') ? partialAfter : after;
  let last = start;
  if (Buffer.compare(start, beginning) < 0) {
    add(await at.all(reads, { directory, path: beginning }));
    last = beginning;
  }
  for (;;) {
    const rows = await next.all(reads, { directory, after: last, limit: BATCH });
    add(rows);
    last = rows.at(-1)?.path ?? last;
    const isEnd = rows.length < BATCH || !last.subarray(0, beginning.length).equals(beginning);
    if (found.length >= limit || isEnd) return found.slice(0, limit);
    await setImmediate();
  }
}

/** The complete file at that path; undefined when there is none. */
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

/** The complete file with that id. @throws {BerthError} `file_not_found`. */
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

/** @throws {BerthError} `upload_not_found`. */
export async function checkingOf(db: Kysely<Tables>, directoryId: string, id: string): Promise<FileRow> {
  const row = await db
    .selectFrom('files')
    .selectAll()
    .where('id', '=', id)
    .where('directory_id', '=', directoryId)
    .where('state', '=', CHECKING)
    .executeTakeFirst();
  if (!row) throw new BerthError('upload_not_found', 'No file of that id is being checked; it may be an upload by now');
  return row;
}

/** Inside a transaction, the row is locked. @throws {BerthError} `upload_not_found`. */
export async function partialOf(db: Kysely<Tables>, directoryId: string, id: string): Promise<FileRow> {
  const query = db
    .selectFrom('files')
    .selectAll()
    .where('id', '=', id)
    .where('directory_id', '=', directoryId)
    .where('state', '=', PARTIAL);
  const row = await (db.isTransaction ? query.forNoKeyUpdate() : query).executeTakeFirst();
  if (!row) throw new BerthError('upload_not_found', 'There is no partial file of that id; it may be an upload by now');
  return row;
}
