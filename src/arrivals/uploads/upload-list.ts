/** The uploads of a directory, as the API shows them: files that are complete. */
import { setImmediate } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import { compiled } from '../../foundation/db/compiled.ts';
import { pathIs } from '../../foundation/db/file-paths.ts';
import { placeInList } from '../../foundation/db/lists.ts';
import type { FilesTable, Tables } from '../../foundation/db/schema.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import { displayName } from './file-path.ts';

export { displayName } from './file-path.ts';

/** How many rows are read at once when the filter leaves some of them out; this takes some 1 ms. */
const LOT = 500;

const COLUMNS = ['id', 'path', 'size_bytes', 'uploaded_at'] as const satisfies readonly (keyof FilesTable)[];

export type UploadRow = Pick<FilesTable, (typeof COLUMNS)[number]>;
/** An upload with the identity of its file, to check that the file is still the one that was uploaded. */
export type RecordedUpload = UploadRow & Pick<FilesTable, 'inode' | 'mtime' | 'ctime'>;

export interface Filters {
  /** The beginning of the shown filename. */
  readonly prefix?: string | undefined;
  /** The shown filename, whole. */
  readonly filename?: string | undefined;
  /** The earliest upload time, inclusive. */
  readonly since?: Micros | undefined;
}

export interface Page extends Filters {
  /** The most rows to return. */
  readonly limit: number;
  /** Continues after this upload. It is given by its id or, since it may have gone, by its place in the list. */
  readonly after?: string | Pick<UploadRow, 'uploaded_at' | 'id'> | undefined;
  /** Awaited before many more rows are read, because the filter or their state has left out those so far. False ends the list. */
  readonly readOn?: (() => Promise<boolean>) | undefined;
}

type Position = Pick<UploadRow, 'uploaded_at' | 'id'>;

/** Files in all states. Filtering by state here could make the query long when many files are in another one. */
const newestFirst = compiled<Position & { directory: string; limit: number; since: Micros }>()((db, p) =>
  db
    .selectFrom('files')
    .select([...COLUMNS, 'state'])
    .where('directory_id', '=', p('directory'))
    .where('uploaded_at', '>=', p('since'))
    .where(({ eb, refTuple, tuple }) => eb(refTuple('uploaded_at', 'id'), '<', tuple(p('uploaded_at'), p('id'))))
    .orderBy('uploaded_at', 'desc')
    .orderBy('id', 'desc')
    .limit(p('limit')),
);

const named = compiled<{ directory: string; path: Buffer }>()((db, p) =>
  db
    .selectFrom('files')
    .select(COLUMNS)
    .where('directory_id', '=', p('directory'))
    .where(pathIs(db, p('path')))
    .where('state', '=', 'uploaded'),
);

/** A place before every row of a list that begins with the newest. */
const NEWEST = { uploaded_at: Number.MAX_SAFE_INTEGER, id: '' };

export interface UploadList {
  /** The files currently in a directory, newest first. @throws {ValidationError} when `after` is none of them. */
  list(directoryId: string, page: Page): Promise<UploadRow[]>;
  /** @throws {BerthError} `upload_not_found`. */
  byId(directoryId: string, id: string): Promise<RecordedUpload>;
}

export function uploadList(reads: Kysely<Tables>): UploadList {
  return {
    async list(directory, { limit, after = NEWEST, since = 0, readOn, ...names }) {
      let place: Position = typeof after === 'string' ? await placeOf(reads, directory, after) : after;
      const { filename } = names;
      // U+FFFD may stand for any bytes.
      if (filename !== undefined && !filename.includes('\u{FFFD}')) {
        const rows = await named.all(reads, { directory, path: Buffer.from(filename) });
        return rows.filter((row) => row.uploaded_at >= since && isBehind(row, place) && isNamed(row.path, names));
      }
      const found: UploadRow[] = [];
      for (let lot = limit; ; lot = LOT) {
        const rows = await newestFirst.all(reads, { directory, limit: lot, since, ...place });
        const shown = rows.filter(({ state, path }) => state === 'uploaded' && isNamed(path, names));
        found.push(...shown);
        const last = rows.at(-1);
        if (found.length >= limit || rows.length < lot || !last) return found.slice(0, limit);
        place = { uploaded_at: last.uploaded_at, id: last.id };
        await setImmediate();
        if (lot === LOT && readOn && !(await readOn())) return found;
      }
    },
    byId: (directory, id) => uploadOf(reads, directory, id),
  };
}

function isNamed(path: Buffer, { prefix = '', filename }: Pick<Filters, 'prefix' | 'filename'>): boolean {
  if (prefix === '' && filename === undefined) return true;
  const name = displayName(path);
  return name.startsWith(prefix) && (filename === undefined || name === filename);
}

/** Whether a row comes after a place, in a list that begins with the newest. */
function isBehind(row: Position, place: Position): boolean {
  return row.uploaded_at < place.uploaded_at || (row.uploaded_at === place.uploaded_at && row.id < place.id);
}

export async function uploadOf(reads: Kysely<Tables>, directory: string, id: string): Promise<RecordedUpload> {
  const row = await reads
    .selectFrom('files')
    .select([...COLUMNS, 'inode', 'mtime', 'ctime'])
    .where('id', '=', id)
    .where('directory_id', '=', directory)
    .where('state', '=', 'uploaded')
    .executeTakeFirst();
  if (!row) throw new BerthError('upload_not_found', 'Upload not found');
  return row;
}

async function placeOf(reads: Kysely<Tables>, directory: string, upload: string): Promise<Position> {
  const { at, id } = await placeInList(reads, 'files', directory, upload);
  return { uploaded_at: at, id };
}
