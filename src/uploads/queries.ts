/** What is read of uploads, and of the directories that they lie in. */
import { type Kysely, sql } from 'kysely';
import { compiled } from '../db/compiled.ts';
import type { FilesTable, Tables } from '../db/schema.ts';
import { ValidationError } from '../errors.ts';
import type { Place } from './record/ledger.ts';

export { displayName } from './file-path.ts';

export type UploadRow = Pick<FilesTable, 'id' | 'path' | 'size_bytes' | 'uploaded_at'>;

export interface Page {
  /** Rows at most. */
  readonly limit: number;
  /** The upload after which to go on, by its id or, though it may have gone since, by its place in the list. */
  readonly after?: string | Pick<UploadRow, 'uploaded_at' | 'id'> | undefined;
}

export interface UploadQueries {
  /** The files currently in a directory, newest first. @throws {ValidationError} when `after` is none of them. */
  list(directoryId: string, page: Page): Promise<UploadRow[]>;
  /** The directory that a user's sessions belong to. */
  directoryOf(username: string): Promise<Place | undefined>;
  directoryOfUid(uid: number): Promise<Place | undefined>;
  directoryById(id: string): Promise<Place | undefined>;
  /** How many live directories there are. */
  directoryCount(): Promise<number>;
  /** Live directories in the order of their ids, after one. */
  directoriesAfter(after: string, limit: number): Promise<Place[]>;
  /** What waits under a temporary name for the end of its session; a thousand at most. */
  waiting(session?: { readonly directoryId: string; readonly pid: number }): Promise<WaitingFile[]>;
}

export interface WaitingFile {
  readonly place: Place;
  readonly path: Buffer;
  readonly pid: number;
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

/** Recorded files of a directory in the order of their paths, after one. */
export const filesAfter = compiled<{ directory: string; after: Buffer; limit: number }>()((db, p) =>
  db
    .selectFrom('files')
    .select(['path', 'inode', 'mtime', 'size_bytes'])
    .where('directory_id', '=', p('directory'))
    .where('path', '>', p('after'))
    .orderBy('path')
    .limit(p('limit')),
);

/** Stands before every row of a list that goes down from the newest. */
const NEWEST = { uploaded_at: Number.MAX_SAFE_INTEGER, id: '' };

/** Rows of `waiting`. */
const MANY = 1000;

export function uploadQueries(reads: Kysely<Tables>): UploadQueries {
  const places = () => reads.selectFrom('directories').select(['id', 'sftp_username']).where('deleted_at', 'is', null);

  async function placeInList(directory: string, after: Page['after']) {
    if (typeof after !== 'string') return after ?? NEWEST;
    const row = await reads
      .selectFrom('files')
      .select(['uploaded_at', 'id'])
      .where('id', '=', after)
      .where('directory_id', '=', directory)
      .executeTakeFirst();
    // An empty page would look like the end of the list.
    if (!row) throw new ValidationError({ after: ['is invalid'] });
    return row;
  }

  return {
    async list(directory, { limit, after }) {
      const { uploaded_at, id } = await placeInList(directory, after);
      return newestFirst.all(reads, { directory, limit, uploaded_at, id });
    },
    directoryOf: (username) => places().where('sftp_username', '=', username).executeTakeFirst(),
    directoryOfUid: (uid) => places().where('uid', '=', uid).executeTakeFirst(),
    directoryById: (id) => places().where('id', '=', id).executeTakeFirst(),
    async directoryCount() {
      const { count } = await reads
        .selectFrom('directories')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .where('deleted_at', 'is', null)
        .executeTakeFirstOrThrow();
      return count;
    },
    directoriesAfter: (after, limit) => places().where('id', '>', after).orderBy('id').limit(limit).execute(),
    async waiting(session) {
      let query = reads
        .selectFrom('files')
        .innerJoin('directories', 'directories.id', 'files.directory_id')
        .select(['directory_id', 'sftp_username', 'path', 'session_pid'])
        // A literal, so that the index of just these can be used.
        .where('files.state', '=', sql.lit('waiting'))
        .limit(MANY);
      if (session) {
        query = query.where('directory_id', '=', session.directoryId).where('session_pid', '=', session.pid);
      }
      return (await query.execute()).map(({ directory_id: id, sftp_username, path, session_pid: pid }) => ({
        place: { id, sftp_username },
        path,
        pid: pid ?? 0,
      }));
    },
  };
}
