/** Hot reads of uploads: compiled once, see what is committed. */
import { type Kysely, sql } from 'kysely';
import type { Reads } from '../db/reads.ts';
import type { FilesTable, Tables } from '../db/schema.ts';
import { ValidationError } from '../errors.ts';
import type { FileStat } from './files.ts';

export { displayName } from './file-path.ts';

export type UploadRow = Pick<FilesTable, 'id' | 'path' | 'size_bytes' | 'uploaded_at'>;

export interface Page {
  /** Rows at most; all of them when left out. */
  readonly limit?: number | undefined;
  /** The id of the upload after which to go on. */
  readonly after?: string | undefined;
}

/** A file as its row has it. */
export type RecordedFile = FileStat & Pick<FilesTable, 'path'>;

export interface DirectoryPlace {
  readonly id: string;
  readonly sftp_username: string;
}

export interface UploadQueries {
  /** The files currently in a directory, newest first. @throws {ValidationError} when `after` is none of them. */
  list(directoryId: string, page: Page): Promise<UploadRow[]>;
  /** The same, all that come after `after`, some at a time. They are those of one moment. */
  listInLots(directoryId: string, after: string | undefined, size: number): AsyncIterable<UploadRow[]>;
  /** What is recorded of one file. */
  fileAt(directoryId: string, path: Buffer): Promise<FileStat | undefined>;
  /** Recorded files of a directory in the order of their paths, after one. */
  filesAfter(directoryId: string, after: Buffer, limit: number): Promise<RecordedFile[]>;
  /** The sessions for whose end a file waits, under a temporary name; a thousand at most. */
  awaitedSessions(): Promise<Pick<FilesTable, 'directory_id' | 'session_pid'>[]>;
  /** The directory that a user's sessions belong to. */
  directoryOf(username: string): Promise<DirectoryPlace | undefined>;
  directoryOfUid(uid: number): Promise<DirectoryPlace | undefined>;
  directoryById(id: string): Promise<DirectoryPlace | undefined>;
  /** How many live directories there are. */
  directoryCount(): Promise<number>;
  /** Live directories in the order of their ids, after one. */
  directoriesAfter(after: string, limit: number): Promise<DirectoryPlace[]>;
}

/** Stands before every row of a list that goes down from the newest. */
const NEWEST = { uploaded_at: Number.MAX_SAFE_INTEGER, id: '' };

export function uploadQueries(reads: Reads): UploadQueries {
  const newestFirst = reads.prepare<{ directory: string; limit: number; uploaded_at: number; id: string }>()((db, p) =>
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
  const placeOf = reads.prepare<{ directory: string; id: string }>()((db, p) =>
    db
      .selectFrom('files')
      .select(['uploaded_at', 'id'])
      .where('id', '=', p('id'))
      .where('directory_id', '=', p('directory')),
  );
  const fileAt = reads.prepare<{ directory: string; path: Buffer }>()((db, p) =>
    db
      .selectFrom('files')
      .select(['inode', 'mtime', 'size_bytes'])
      .where('directory_id', '=', p('directory'))
      .where('path', '=', p('path')),
  );
  const filesAfter = reads.prepare<{ directory: string; after: Buffer; limit: number }>()((db, p) =>
    db
      .selectFrom('files')
      .select(['path', 'inode', 'mtime', 'size_bytes'])
      .where('directory_id', '=', p('directory'))
      .where('path', '>', p('after'))
      .orderBy('path')
      .limit(p('limit')),
  );
  const awaitedSessions = reads.prepare<object>()((db) =>
    db
      .selectFrom('files')
      .select(['directory_id', 'session_pid'])
      .distinct()
      .where('state', '=', sql.lit('waiting'))
      .limit(1000),
  );
  const directories = reads.prepare<{ after: string; limit: number }>()((db, p) =>
    db
      .selectFrom('directories')
      .select(['id', 'sftp_username'])
      .where('deleted_at', 'is', null)
      .where('id', '>', p('after'))
      .orderBy('id')
      .limit(p('limit')),
  );
  const count = reads.prepare<object>()((db) =>
    db
      .selectFrom('directories')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('deleted_at', 'is', null),
  );
  const byUsername = reads.prepare<{ username: string }>()((db, p) =>
    place(db).where('sftp_username', '=', p('username')),
  );
  const byUid = reads.prepare<{ uid: number }>()((db, p) => place(db).where('uid', '=', p('uid')));
  const byId = reads.prepare<{ id: string }>()((db, p) => place(db).where('id', '=', p('id')));

  async function begin(directory: string, after: string | undefined) {
    const from = after === undefined ? NEWEST : await placeOf.first({ directory, id: after });
    // An empty page would look like the end of the list.
    if (!from) throw new ValidationError({ after: ['is invalid'] });
    return from;
  }

  return {
    async list(directory, { limit = Number.MAX_SAFE_INTEGER, after }) {
      return newestFirst.all({ directory, limit, ...(await begin(directory, after)) });
    },
    async *listInLots(directory, after, size) {
      const from = await begin(directory, after);
      yield* newestFirst.lots({ directory, limit: Number.MAX_SAFE_INTEGER, ...from }, size);
    },
    fileAt: async (directory, path) => fileAt.first({ directory, path }),
    filesAfter: async (directory, after, limit) => filesAfter.all({ directory, after, limit }),
    awaitedSessions: async () => awaitedSessions.all({}),
    directoryOf: async (username) => byUsername.first({ username }),
    directoryOfUid: async (uid) => byUid.first({ uid }),
    directoryById: async (id) => byId.first({ id }),
    directoryCount: async () => (await count.first({}))?.count ?? 0,
    directoriesAfter: async (after, limit) => directories.all({ after, limit }),
  };
}

function place(db: Kysely<Tables>) {
  return db.selectFrom('directories').select(['id', 'sftp_username']).where('deleted_at', 'is', null);
}
