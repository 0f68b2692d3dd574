/** What the API does with the files of a directory. */
import type { Kysely } from 'kysely';
import type { Tables } from '../db/schema.ts';
import { type Content, contentOf, type ContentOptions } from './content.ts';
import type { Jail } from './jails.ts';
import { type RecordedUpload, uploadOf } from './upload-list.ts';

export interface DirectoryFiles {
  /** The upload and its file. @throws {BerthError} `upload_not_found`, `file_changed`, `file_in_use`. */
  content(jail: Jail, uploadId: string): Promise<{ upload: RecordedUpload; content: Content }>;
}

export interface DirectoryFilesOptions extends ContentOptions {
  readonly database: { readonly reads: Kysely<Tables> };
}

export function directoryFiles(options: DirectoryFilesOptions): DirectoryFiles {
  return {
    async content(jail, uploadId) {
      const upload = await uploadOf(options.database.reads, jail.id, uploadId);
      return { upload, content: await contentOf(options, jail, upload) };
    },
  };
}
