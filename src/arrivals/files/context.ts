/** What code uses that reads or changes the files of directories. `service.ts` makes it; tests replace what uploads knows. */
import type { Ground } from '../../foundation/context.ts';
import type { Transact } from '../../foundation/db/database.ts';
import type { DirectoryRow } from '../../foundation/db/schema.ts';
import type { FilePath } from '../uploads/file-path.ts';
import type { Jail } from '../uploads/jails.ts';
import type { LiveFiles } from '../uploads/start.ts';
import type { RecordedUpload } from '../uploads/upload-list.ts';
import type { Transit } from './transit.ts';

export interface FilesGround extends Ground, LiveFiles {
  /** Transactions that announce uploads. */
  readonly transact: Transact;
  readonly transit: Transit;
  readonly isJailDiskThere: () => boolean;
  /** Runs `work`, which changes the directory, unless the directory is moving to another node. */
  through<T>(directoryId: string, work: () => Promise<T>): Promise<T>;
  /** Moves a file that was taken out to the quarantine if it belongs there. Returns false if it does not. */
  quarantined(uploadId: string, file: string): Promise<boolean>;
}

export interface FilesContext extends FilesGround {
  readonly deferral: Deferral;
}

/** Removals that wait for a client, as those need them who remove files or need their names. */
export interface Deferral {
  /** Whether a session may still ask for a file that is removed now, and the directory's quota has room for it meanwhile. */
  mayBeAskedFor(directory: DirectoryRow, file: RecordedUpload): Promise<boolean>;
  /** A row has become `removed`. */
  added(): void;
  /** Ends the removal of that file now, if it waits. @throws {BerthError} `file_in_use`, `file_changed`, `upload_not_found`. */
  endOf(fileId: string): Promise<void>;
  /** Ends removals that wait at the path, or where a folder above it would be. A file that cannot be removed now stays. */
  endAt(directory: Pick<Jail, 'id'>, path: FilePath): Promise<void>;
}
