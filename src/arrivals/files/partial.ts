/**
 * Partial files: their session was cut off in the middle, or nobody saw the upload end. They are not uploads, but count in
 * `storage_bytes`. An operator or a user decides about each of them: announce or delete.
 *
 * Promise: an announced file is synced to the disk, then becomes an upload in one transaction with its history and its
 * webhook. A crash leaves it announced or as it was.
 */
import type { Kysely, Transaction } from 'kysely';
import { verifyActor } from '../../rules/accounts/actor.ts';
import { lstatBeneath } from '../../foundation/base/beneath.ts';
import type { Micros } from '../../foundation/base/clock.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { liveDirectory, type Target } from '../../rules/directories/target.ts';
import { insertAudit } from '../../rules/history/audit.ts';
import { enqueue } from '../../deliveries/webhooks/outbox.ts';
import { type ArrivalState, arrivalState, arrive } from '../uploads/arrival.ts';
import { changed, gone, inUse } from './content.ts';
import { PARTIAL, partialOf } from './file-rows.ts';
import { displayName, pathOf } from '../uploads/file-path.ts';
import { type FileRow, Files } from '../uploads/record/files.ts';
import { type FileStat, fileStat, isSame } from '../uploads/record/file-stat.ts';
import { recordHistory } from '../uploads/record/transfer-history.ts';
import type { UploadRow } from '../uploads/upload-list.ts';
import type { FilesContext } from './context.ts';

export interface PartialFile {
  readonly id: string;
  readonly directory_id: string;
  readonly account_id: string;
  readonly username: string;
  readonly path: Buffer;
  readonly size_bytes: number;
  /** When writing ended, as far as that is known. */
  readonly since: Micros;
  /** The upload that was cut off, or that was closed and may still be incomplete; null when none is known. */
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

/** At most `limit` partial files of live directories, newest first. If there are more, any of them may be missing. */
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
    // The file's row has the time at which its upload was cut off.
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
  // Several uploads may have been cut off at the same time.
  return [...new Map(found.map((file) => [file.id, file])).values()].toSorted((a, b) => b.since - a.since);
}

/** Why a file is partial. */
export function reasonOf({ cut_off }: Pick<PartialFile, 'cut_off'>): string {
  if (cut_off === null || cut_off.pid === null) return 'nobody saw its upload end';
  const who = cut_off.address === null ? 'its session' : `the session from ${cut_off.address}`;
  if (cut_off.reason !== null) return `${who} closed it, and ${cut_off.reason}`;
  return `${who} was cut off while writing it`;
}

export type AnnouncedPartial = UploadRow & { readonly state: ArrivalState };
export type AnnouncePartial = (target: Target<AnnouncedPartial>, fileId: string) => Promise<AnnouncedPartial>;

/**
 * Returns a function that turns a partial file into an upload, as if it had arrived now.
 * It throws {BerthError} `directory_not_found`, `upload_not_found`, `file_changed`, `file_in_use`.
 */
export function partialAnnouncement(context: FilesContext): AnnouncePartial {
  const { database, syncer, filesRoot, caughtUp, isHeldNow, missing, transact, recorded } = context;
  return async (target, fileId) => {
    const directory = await liveDirectory(database.reads, target);
    const root = filesRoot(directory.sftp_username);
    const file = await partialOf(database.reads, directory.id, fileId);
    // A session may have just resumed the upload.
    await caughtUp(directory);
    const path = pathOf(file.path);
    if (!(await syncer.sync(root, path))) {
      missing(directory, path);
      throw gone(undefined);
    }
    const { upload, history } = await transact(async (tx) => {
      await verifyActor(tx, target);
      const row = await partialOf(tx, directory.id, fileId);
      const stat = statOf(root, row.path);
      if (!stat || !isSame(row, stat)) throw changed();
      if (isHeldNow(directory.id, stat.inode)) throw inUse();
      const found = await liveDirectory(tx, target);
      const announced = await record(tx, context, found, { row, stat }, target);
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
  { clock, config }: FilesContext,
  directory: DirectoryRow,
  { row, stat }: { readonly row: FileRow; readonly stat: FileStat },
  target: Target<AnnouncedPartial>,
) {
  const at = clock.now();
  const path = pathOf(row.path);
  const files = new Files(tx, directory.id);
  // A person has chosen to announce it, so its name counts as final.
  const held = { isChecked: config.check !== undefined, settles: false };
  const state = arrivalState(held);
  const values = { ...stat, state, uploaded_at: at, named_at: 0, session_pid: null };
  const upload = { ...(await files.update(row, values)), state };
  const { history, uploads } = arrive({ directory, files, ...held }, { path, at, bytes: row.size_bytes }, upload);
  await files.flush();
  await recordHistory(tx, [history]);
  const filename = displayName(path);
  const details = { file: { from: filename, to: filename } };
  await insertAudit(tx, target, { action: 'announce-partial', at, directory, details });
  await target.actor?.response?.keep(tx, upload);
  return { upload, history: [history], destinations: await enqueue(tx, ...uploads) };
}
