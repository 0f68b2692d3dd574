/**
 * An upload has arrived: the one way in which a file becomes an upload, however it came. Where berth has a checker
 * (`BERTH_CHECK`) the file is `checking` first, and `checks/` announces it once it has passed.
 *
 * Promise: the row, its history, its webhook and its event are of one transaction, the caller's.
 */
import type { DirectoriesTable } from '../db/schema.ts';
import type { UploadEvent } from '../webhooks/outbox.ts';
import { displayName } from './file-path.ts';
import type { FileRow, Files } from './record/files.ts';
import { type HistoryRow, historyRow } from './record/history.ts';
import type { Announcement } from './story/operations.ts';

/** A directory in the transaction that announces something of it. */
export interface Place {
  readonly directory: UploadEvent['directory'] & Pick<DirectoriesTable, 'sftp_username'>;
  readonly files: Files;
  /** Whether uploads are checked before they are announced. */
  readonly isChecked: boolean;
}

/** What the transaction puts into the history and, with `enqueue`, into the feed and the outbox: many uploads at once cost less. */
export interface Arrived {
  readonly history: HistoryRow;
  readonly uploads: readonly UploadEvent[];
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
export function arrive(place: Place, upload: Announcement, row: FileRow | undefined): Arrived {
  if (!place.isChecked) return announceUpload(place, upload, row?.id ?? null);
  return { history: historyRow(place.directory, { ...upload, event: 'received' }), uploads: [] };
}

/** History, webhook, event, and the time of the directory's last upload. */
export function announceUpload(
  { directory, files }: Omit<Place, 'isChecked'>,
  upload: Announcement,
  uploadId: string | null,
): Arrived {
  files.announced(upload);
  const filename = displayName(upload.path);
  const event = { directory, uploadId, filename, sizeBytes: upload.bytes, uploadedAt: upload.at };
  return { history: historyRow(directory, { ...upload, event: 'uploaded' }), uploads: [event] };
}
