/**
 * Files that were not finished: their session was cut off in the middle, or nobody saw the upload end. They are no
 * uploads, and count in `storage_bytes`. An operator or a user looks at them, and announces or deletes each.
 *
 * Promise: an announced file becomes an upload in one transaction with its history and its webhook, and is on the disk
 * before that; a crash leaves it announced or as it was.
 */
import { type Kysely, sql, type Transaction } from 'kysely';
import { verifyActor } from '../accounts/actor.ts';
import { lstatBeneath } from '../base/beneath.ts';
import type { Clock, Micros } from '../base/clock.ts';
import type { Database } from '../db/open.ts';
import type { DirectoriesTable, FilesTable, Tables } from '../db/schema.ts';
import { liveDirectory, type Target } from '../directories/target.ts';
import { BerthError } from '../base/errors.ts';
import { insertAudit } from '../history/audit.ts';
import { enqueue } from '../webhooks/outbox.ts';
import type { Transact } from '../webhooks/dispatcher.ts';
import { type ArrivalState, arrivalState, arrive } from '../uploads/arrival.ts';
import { changed, gone, inUse } from './content.ts';
import type { FileSyncer } from '../uploads/disk/file-syncer.ts';
import { displayName, type FilePath, type FilesRoot, pathOf } from '../uploads/file-path.ts';
import type { Jail } from '../uploads/jails.ts';
import { Files } from '../uploads/record/files.ts';
import { type FileStat, fileStat, isSame } from '../uploads/record/file-stat.ts';
import { type HistoryRow, recordHistory } from '../uploads/record/history.ts';
import type { UploadRow } from '../uploads/upload-list.ts';

/** A literal, so that the index of just these can be used. */
const PARTIAL = sql.lit('partial' as const);

export interface PartialFile {
  readonly id: string;
  readonly directory_id: string;
  readonly account_id: string;
  readonly username: string;
  readonly path: Buffer;
  readonly size_bytes: number;
  /** When its writing ended, as far as that is known. */
  readonly since: Micros;
  /** The upload that was cut off, or that was closed and is in doubt; null when none is known. */
  readonly cut_off: {
    readonly address: string | null;
    readonly pid: number | null;
    readonly reason: string | null;
  } | null;
}

export interface PartialFilter {
  readonly directories?: readonly string[] | undefined;
  readonly account?: string | undefined;
  readonly files?: readonly string[];
  readonly limit: number;
}

/** Partial files of live directories, the newest first; any `limit` of them when there are more. */
export async function partialFiles(
  reads: Kysely<Tables>,
  { directories, account, files, limit }: PartialFilter,
): Promise<PartialFile[]> {
  let some = reads
    .selectFrom('files')
    .innerJoin('directories', 'directories.id', 'files.directory_id')
    .select(['files.id', 'directory_id', 'account_id', 'sftp_username', 'path', 'size_bytes', 'uploaded_at'])
    .where('files.state', '=', PARTIAL)
    .where('deleted_at', 'is', null)
    .limit(limit);
  if (directories) some = some.where('directory_id', 'in', directories);
  if (account !== undefined) some = some.where('account_id', '=', account);
  if (files) some = some.where('files.id', 'in', files);
  const rows = await reads
    .selectFrom(some.as('some'))
    // The row of an upload that was cut off has the time of that event.
    .leftJoin('transfers', (join) =>
      join
        .onRef('transfers.directory_id', '=', 'some.directory_id')
        .onRef('transfers.at', '=', 'some.uploaded_at')
        .on('transfers.event', '=', 'upload-dropped'),
    )
    .select(['some.id', 'some.directory_id', 'some.account_id', 'sftp_username', 'some.path', 'some.size_bytes'])
    .select(['uploaded_at', 'transfers.at', 'address', 'session_pid', 'reason'])
    .execute();
  const found = rows.map(({ sftp_username, uploaded_at, at, address, session_pid, reason, ...row }) => ({
    ...row,
    username: sftp_username,
    since: uploaded_at,
    cut_off: at === null ? null : { address, pid: session_pid, reason },
  }));
  // Several uploads may have been cut off in one moment.
  return [...new Map(found.map((file) => [file.id, file])).values()].toSorted((a, b) => b.since - a.since);
}

/** Why a file is partial. */
export function reasonOf({ cut_off }: Pick<PartialFile, 'cut_off'>): string {
  if (cut_off === null || cut_off.pid === null) return 'nobody saw its upload end';
  const who = cut_off.address === null ? 'its session' : `the session from ${cut_off.address}`;
  if (cut_off.reason !== null) return `${who} closed it, and ${cut_off.reason}`;
  return `${who} was cut off while writing it`;
}

export interface AnnounceOptions {
  readonly database: Pick<Database, 'reads'>;
  readonly clock: Clock;
  readonly syncer: FileSyncer;
  readonly filesRoot: FilesRoot;
  readonly transact: Transact;
  /** Resolves when everything has been followed that sshd had logged of the directory before the call. */
  caughtUp(jail: Jail): Promise<void>;
  /** Whether a session of the directory holds that inode open for writing, asked of the kernel now. */
  isHeldNow(directoryId: string, inode: number): boolean;
  /** Whether uploads are checked before they are announced; false when left out. */
  readonly isChecked?: boolean | undefined;
  /** Nothing seems to be at a path where something is recorded. */
  missing(jail: Jail, path: FilePath): void;
  /** Called with what a commit has put into the history. */
  recorded(rows: readonly HistoryRow[]): void;
}

export type AnnouncePartial = (target: Target, fileId: string) => Promise<UploadRow & { readonly state: ArrivalState }>;

/**
 * Makes a partial file an upload as if it had arrived now.
 * Its function throws {BerthError} `directory_not_found`, `upload_not_found`, `file_changed`, `file_in_use`.
 */
export function partialAnnouncement(options: AnnounceOptions): AnnouncePartial {
  const { database, syncer, filesRoot, caughtUp, isHeldNow, missing, transact, recorded } = options;
  return async (target, fileId) => {
    const directory = await liveDirectory(database.reads, target);
    const root = filesRoot(directory.sftp_username);
    const file = await partialOf(database.reads, directory.id, fileId);
    // A session may have resumed it just now.
    await caughtUp(directory);
    const path = pathOf(file.path);
    if (!(await syncer.sync(root, path))) {
      missing(directory, path);
      throw gone(undefined);
    }
    const { upload, history } = await transact(async (tx) => {
      await verifyActor(tx, target.actor);
      const row = await partialOf(tx, directory.id, fileId);
      const stat = statOf(root, row.path);
      if (!stat || !isSame(row, stat)) throw changed();
      if (isHeldNow(directory.id, stat.inode)) throw inUse();
      const announced = await record(tx, options, await liveDirectory(tx, target), row, target);
      return { value: announced, destinations: announced.destinations };
    });
    recorded(history);
    return upload;
  };
}

function statOf(root: string, path: Buffer): FileStat | undefined {
  const stats = lstatBeneath(root, path);
  return stats?.isFile() ? fileStat(stats) : undefined;
}

async function record(
  tx: Transaction<Tables>,
  { clock, isChecked = false }: AnnounceOptions,
  directory: DirectoriesTable,
  row: FilesTable,
  { actor }: Target,
) {
  const at = clock.now();
  const path = pathOf(row.path);
  const files = new Files(tx, directory.id);
  const state = arrivalState({ isChecked });
  const upload = { ...(await files.update(row, { state, uploaded_at: at, session_pid: null })), state };
  const { history, uploads } = arrive({ directory, files, isChecked }, { path, at, bytes: row.size_bytes }, upload);
  await files.flush();
  await recordHistory(tx, [history]);
  const filename = displayName(path);
  const details = { file: { from: filename, to: filename } };
  if (actor) await insertAudit(tx, actor, { action: 'announce-partial', at, directory, details });
  return { upload, history: [history], destinations: await enqueue(tx, ...uploads) };
}

/** Locked inside a transaction. @throws {BerthError} `upload_not_found`. */
export async function partialOf(db: Kysely<Tables>, directoryId: string, id: string): Promise<FilesTable> {
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
