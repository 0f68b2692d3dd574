/** What the API does with the files of a directory. */
import { refusingWhenFull } from '../directories/storage-full.ts';
import { type Content, contentOf, type ContentOptions } from './content.ts';
import type { Target } from '../directories/target.ts';
import type { Jail } from './jails.ts';
import { type AnnounceOptions, type AnnouncePartial, partialAnnouncement } from './partial.ts';
import { filePlacing, type PlaceFile, type PlacingOptions } from './placing.ts';
import { type RemovalOptions, type RemoveUpload, uploadRemoval } from './removal.ts';
import { type RecordedUpload, uploadOf } from './upload-list.ts';

export interface DirectoryFiles {
  /** The upload and its file. @throws {BerthError} `upload_not_found`, `file_changed`, `file_in_use`. */
  content(jail: Jail, uploadId: string): Promise<{ upload: RecordedUpload; content: Content }>;
  /** Removes an upload with its file. */
  readonly remove: RemoveUpload;
  /** Puts a file there for the customer. */
  readonly place: PlaceFile;
  /** Makes a partial file an upload. */
  readonly announcePartial: AnnouncePartial;
  /** Removes a partial file. @throws {BerthError} as `remove`. */
  removePartial(target: Target, fileId: string): Promise<void>;
}

export type DirectoryFilesOptions = ContentOptions & RemovalOptions & PlacingOptions & AnnounceOptions;

export function directoryFiles(options: DirectoryFilesOptions): DirectoryFiles {
  const remove = uploadRemoval(options);
  const place = filePlacing(options);
  const announcePartial = partialAnnouncement(options);
  return {
    async content(jail, uploadId) {
      const upload = await uploadOf(options.database.reads, jail.id, uploadId);
      return { upload, content: await contentOf(options, jail, upload) };
    },
    announcePartial: (...about) => refusingWhenFull(() => announcePartial(...about)),
    removePartial: (target, fileId) => refusingWhenFull(() => remove(target, fileId, 'partial')),
    remove: (...about) => refusingWhenFull(() => remove(...about)),
    place: (...about) => refusingWhenFull(() => place(...about)),
  };
}
