/** The API's operations on a directory's files. */
import { refusingWhenFull } from '../../rules/directories/storage-full.ts';
import { type CompleteFile, completeFileOf, fileAt } from './file-rows.ts';
import { completeContent, type Content } from './content.ts';
import type { FilePath } from '../uploads/file-path.ts';
import type { Target } from '../../rules/directories/target.ts';
import type { Jail } from '../uploads/jails.ts';
import { type AnnouncePartial, partialAnnouncement } from './partial.ts';
import { filePlacing, type PlaceFile } from './placing.ts';
import { fileRemoval, type RemoveFile, type RemoveUpload } from './removal.ts';
import { type RecordedUpload, uploadOf } from '../uploads/upload-list.ts';
import type { FilesContext } from './context.ts';

export interface DirectoryFiles {
  /** Throws when another node has the directory's files. @throws {BerthError} `home_elsewhere`. */
  checkHome(of: Pick<Jail, 'id'>): Promise<void>;
  /** The upload and its file. @throws {BerthError} `upload_not_found`, `file_changed`, `file_in_use`. */
  content(jail: Jail, uploadId: string): Promise<{ upload: RecordedUpload; content: Content }>;
  /**
   * The complete file at a path: an upload, or one that the API put there.
   * @throws {BerthError} `file_not_found`, and like `content`.
   */
  contentAt(jail: Jail, path: FilePath): Promise<{ upload: CompleteFile; content: Content }>;
  /** Removes an upload with its file. */
  readonly remove: RemoveUpload;
  /** Removes the file at a path. */
  readonly removeAt: RemoveFile;
  /** Puts a file into the directory for its customer. */
  readonly place: PlaceFile;
  /** Turns a partial file into an upload. */
  readonly announcePartial: AnnouncePartial;
  /** Removes a partial file. @throws {BerthError} like `remove`. */
  removePartial(target: Target, fileId: string): Promise<void>;
  /** Removes a file that is being checked. @throws {BerthError} like `remove`. */
  removeChecking(target: Target, fileId: string): Promise<void>;
}

export function directoryFiles(context: FilesContext): DirectoryFiles {
  const { upload: remove, at: removeAt, partial: removePartial, checking } = fileRemoval(context);
  const place = filePlacing(context);
  const { reads } = context.database;
  const announcePartial = partialAnnouncement(context);
  return {
    checkHome: async () => undefined,
    content(jail, uploadId) {
      const find = (): Promise<RecordedUpload> => uploadOf(reads, jail.id, uploadId);
      return completeContent(context, jail, find, find);
    },
    contentAt: (jail, path) =>
      completeContent(
        context,
        jail,
        () => fileAt(reads, jail.id, path),
        (id) => completeFileOf(reads, jail.id, id),
      ),
    announcePartial: (...about) => refusingWhenFull(() => announcePartial(...about)),
    removePartial: (target, fileId) => refusingWhenFull(() => removePartial(target, fileId)),
    removeChecking: (target, fileId) => refusingWhenFull(() => checking(target, fileId)),
    remove: (...about) => refusingWhenFull(() => remove(...about)),
    removeAt: (...about) => refusingWhenFull(() => removeAt(...about)),
    place: (...about) => refusingWhenFull(() => place(...about)),
  };
}
