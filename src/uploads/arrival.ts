/**
 * An upload has arrived: the one way in which a file becomes an upload, however it came. Where berth has a checker
 * (`BERTH_CHECK`) the file is `checking` first, and `checks/` announces it once it has passed.
 *
 * Promise: the row, its history, its webhook and its event are of one transaction, the caller's.
 */
import type { Transaction } from 'kysely';
import type { DirectoriesTable, Tables } from '../db/schema.ts';
import { enqueue, type UploadEvent } from '../webhooks/outbox.ts';
import { displayName } from './file-path.ts';
import type { FileRow, Files } from './record/files.ts';
import { type HistoryRow, historyRow } from './record/history.ts';
import type { Announcement } from './story/operations.ts';

/** A directory in the transaction that announces something of it. */
export interface Place {
  readonly tx: Transaction<Tables>;
  readonly directory: UploadEvent['directory'] & Pick<DirectoriesTable, 'sftp_username'>;
  readonly files: Files;
  /** Whether uploads are checked before they are announced. */
  readonly isChecked: boolean;
}

/** What the transaction puts into the history, and where its webhooks go. */
export interface Arrived {
  readonly history: HistoryRow;
  readonly destinations: readonly string[];
}

/** The state of a file that has just arrived. */
export type ArrivalState = 'uploaded' | 'checking';

export function arrivalState({ isChecked }: Pick<Place, 'isChecked'>): ArrivalState {
  return isChecked ? 'checking' : 'uploaded';
}

/**
 * @param row as it was written for the upload, in the state above; undefined when its file was gone before it got one, so that
 * nobody can check it any more.
 */
export async function arrive(place: Place, upload: Announcement, row: FileRow | undefined): Promise<Arrived> {
  if (!place.isChecked) return announceUpload(place, upload, row?.id ?? null);
  return { history: historyRow(place.directory, { ...upload, event: 'received' }), destinations: [] };
}

/** History, webhook, event, and the time of the directory's last upload. */
export async function announceUpload(
  { tx, directory, files }: Omit<Place, 'isChecked'>,
  upload: Announcement,
  uploadId: string | null,
): Promise<Arrived> {
  files.announced(upload);
  const filename = displayName(upload.path);
  const event = { directory, uploadId, filename, sizeBytes: upload.bytes, uploadedAt: upload.at };
  const destinations = await enqueue(tx, event);
  return { history: historyRow(directory, { ...upload, event: 'uploaded' }), destinations };
}
