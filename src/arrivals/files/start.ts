/** Opens the operations on directories' files, on what uploads knows about them. */
import { jailFiles } from '../uploads/file-path.ts';
import type { LiveFiles } from '../uploads/start.ts';
import type { ContentOptions } from './content.ts';
import { type DirectoryFiles, directoryFiles, type DirectoryFilesOptions } from './directory-files.ts';
import { type DeferralOptions, DeferredRemovals } from './deferred-removal.ts';
import type { RemovalOptions, WithdrawingOptions } from './removal.ts';
import { createTransit, recoverTransit, type RecoveryOptions, type Transit } from './transit.ts';

/** What code that changes files of directories needs. */
export interface FileAccess extends WithdrawingOptions, ContentOptions, Pick<RemovalOptions, 'recorded'> {}

export interface TransitOptions extends Omit<RecoveryOptions, 'filesRoot'> {
  readonly jailDir: string;
  /** For files on their way into or out of a directory. On the jails' file system, inaccessible to users. */
  readonly folder: string;
}

/** Puts back what a crash has left in transit. Call it before uploads follows the directories. */
export async function openTransit({ jailDir, folder, ...options }: TransitOptions): Promise<Transit> {
  const transit = createTransit(folder);
  await recoverTransit(transit, { ...options, filesRoot: jailFiles(jailDir) });
  return transit;
}

export interface FilesOptions
  extends
    Pick<DirectoryFilesOptions, 'database' | 'clock' | 'transact' | 'isChecked'>,
    Pick<DeferralOptions, 'log' | 'background' | 'node' | 'isJailDiskThere' | 'through' | 'quarantined'> {
  readonly transit: Transit;
  readonly live: LiveFiles;
}

export interface StartedFiles {
  readonly access: FileAccess;
  readonly files: DirectoryFiles;
  /** Removals that wait for clients. */
  readonly deferral: DeferredRemovals;
  close(): Promise<void>;
}

export function startFiles({ live, transit, ...options }: FilesOptions): StartedFiles {
  const { database, background, clock, log, node, isJailDiskThere, through, quarantined } = options;
  const taking = { ...live, transit, database };
  const deferral = new DeferredRemovals({
    ...taking,
    background,
    clock,
    log,
    node,
    isJailDiskThere,
    through,
    quarantined,
  });
  const access = { ...taking, deferral };
  const files = directoryFiles({ ...access, ...options });
  return { access, files, deferral, close: () => deferral.close() };
}
