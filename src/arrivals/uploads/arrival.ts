/**
 * The one place where a file becomes an upload, whether it came by SFTP or HTTPS. Where names have to settle
 * (`BERTH_SETTLE_SECONDS`) or berth has a checker (`BERTH_CHECK`), the file is `checking` first, and `checks/` announces it later.
 *
 * Promise: the row, its history, its webhook and its event are written in one transaction, which is the caller's.
 */
import type { DirectoryRow } from '../../foundation/db/schema.ts';
import type { UploadEvent } from '../../deliveries/webhooks/outbox.ts';
import { displayName, type IsTemporary } from './file-path.ts';
import type { FileRow, Files } from './record/files.ts';
import { type HistoryRow, historyRow } from './record/transfer-history.ts';
import type { Announcement } from './story/operations.ts';

/** What holds an upload back before it is announced. */
export interface Holding {
  /** Whether uploads are checked. */
  readonly isChecked: boolean;
  /** Whether an upload waits until its name has not changed for a while (`BERTH_SETTLE_SECONDS`). */
  readonly settles: boolean;
}

/** A directory inside the transaction that announces its uploads. */
export interface Place extends Holding {
  readonly directory: UploadEvent['directory'] & Pick<DirectoryRow, 'sftp_username'>;
  readonly files: Files;
  /** Whether uploads of that name are only listed (`BERTH_UNANNOUNCED_NAMES`). */
  readonly isUnannounced?: IsTemporary | undefined;
}

/**
 * Rows for the history and, through `enqueue`, for the feed and the outbox. The transaction writes the rows of many
 * uploads together.
 */
export interface Arrived {
  readonly history: HistoryRow;
  readonly uploads: readonly UploadEvent[];
}

/** The state of a file that has just arrived. */
export type ArrivalState = 'uploaded' | 'checking';

export function arrivalState({ isChecked, settles }: Holding): ArrivalState {
  return isChecked || settles ? 'checking' : 'uploaded';
}

/**
 * Announces an upload, or only notes that it was received if it is held back.
 * @param row the upload's row. Undefined when the file was gone before it got one, so that nobody can check it any more, or see
 * its name settle.
 */
export function arrive(place: Place, upload: Announcement, row: FileRow | undefined): Arrived {
  const state = row?.state ?? arrivalState(place);
  if (state === 'uploaded') return announceUpload(place, upload, row?.id ?? null);
  return { history: historyRow(place.directory, { ...upload, event: 'received' }), uploads: [] };
}

/** Makes an upload's history, webhook and event, and updates the time of the directory's last upload. */
export function announceUpload(
  { directory, files, isUnannounced }: Omit<Place, keyof Holding>,
  upload: Announcement,
  uploadId: string | null,
): Arrived {
  files.announced(upload);
  const filename = displayName(upload.path);
  const event = { directory, uploadId, filename, sizeBytes: upload.bytes, uploadedAt: upload.at };
  return {
    history: historyRow(directory, { ...upload, event: 'uploaded' }),
    uploads: isUnannounced?.(upload.path) ? [] : [event],
  };
}
