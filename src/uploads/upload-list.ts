/** The list of a directory's uploads, as the API shows it. */
import type { Kysely } from 'kysely';
import { compiled } from '../db/compiled.ts';
import type { FilesTable, Tables } from '../db/schema.ts';
import { ValidationError } from '../errors.ts';

export { displayName } from './file-path.ts';

export type UploadRow = Pick<FilesTable, 'id' | 'path' | 'size_bytes' | 'uploaded_at'>;

export interface Page {
  /** Rows at most. */
  readonly limit: number;
  /** The upload after which to go on, by its id or, since it may have gone, by its place in the list. */
  readonly after?: string | Pick<UploadRow, 'uploaded_at' | 'id'> | undefined;
}

const newestFirst = compiled<{ directory: string; limit: number; uploaded_at: number; id: string }>()((db, p) =>
  db
    .selectFrom('files')
    .select(['id', 'path', 'size_bytes', 'uploaded_at'])
    .where('directory_id', '=', p('directory'))
    .where('state', '=', 'uploaded')
    .where(({ eb, refTuple, tuple }) => eb(refTuple('uploaded_at', 'id'), '<', tuple(p('uploaded_at'), p('id'))))
    .orderBy('uploaded_at', 'desc')
    .orderBy('id', 'desc')
    .limit(p('limit')),
);

/** Stands before every row of a list that goes down from the newest. */
const NEWEST = { uploaded_at: Number.MAX_SAFE_INTEGER, id: '' };

export interface UploadList {
  /** The files currently in a directory, newest first. @throws {ValidationError} when `after` is none of them. */
  list(directoryId: string, page: Page): Promise<UploadRow[]>;
}

export function uploadList(reads: Kysely<Tables>): UploadList {
  return {
    async list(directory, { limit, after = NEWEST }) {
      const { uploaded_at, id } = typeof after === 'string' ? await upload(reads, directory, after) : after;
      return newestFirst.all(reads, { directory, limit, uploaded_at, id });
    },
  };
}

async function upload(reads: Kysely<Tables>, directory: string, id: string) {
  const row = await reads
    .selectFrom('files')
    .select(['uploaded_at', 'id'])
    .where('id', '=', id)
    .where('directory_id', '=', directory)
    .executeTakeFirst();
  // An empty page would look like the end of the list.
  if (!row) throw new ValidationError({ after: ['is invalid'] });
  return row;
}
