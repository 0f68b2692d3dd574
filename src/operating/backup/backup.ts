/**
 * `berth backup`: packs everything on this machine that cannot be made again into one file: the SQLite database, the host keys, the
 * self-signed certificate that clients trust, and the configuration. It does not hold up a running service.
 *
 * It leaves out the customers' files, a PostgreSQL database and the operator's own certificate.
 */
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type Clock, formatMicros, type Micros } from '../../foundation/base/clock.ts';
import type { Config } from '../../foundation/base/config.ts';
import { copyDatabaseFile } from '../../foundation/db/copy.ts';
import { openDatabase } from '../../foundation/db/open.ts';
import { isPostgresUrl } from '../../foundation/base/database-place.ts';
import { refuseUnfinished } from '../../foundation/db/unfinished-restore.ts';
import { errorMessage, OperatorError } from '../../foundation/base/errors.ts';
import { noteBackup } from '../../foundation/base/last-backup.ts';
import { pathsOf } from '../../machine/sftp/paths.ts';
import { version } from '../../foundation/base/version.ts';
import { identityFiles, type OnPostgres, pack, PARTS } from './archive.ts';

export interface BackupOptions {
  readonly clock: Clock;
  /** The archive's path; with `keep`, the folder of all archives. */
  readonly file: string;
  /** How many archives stay in the folder, this one included. */
  readonly keep?: number | undefined;
  /** The file that sets the environment, if there is one. */
  readonly settings: string;
  readonly stop: AbortSignal;
}

/**
 * @returns the archive, and the names of the files in it.
 * @throws {OperatorError} when there is no database, or the archive cannot be written. An earlier archive stays as it was.
 */
export async function backUp(
  config: Config,
  { clock, file, keep, settings, stop }: BackupOptions,
): Promise<{ file: string; parts: string[] }> {
  refuseUnfinished(config);
  const isPostgres = isPostgresUrl(config.database);
  if (!isPostgres && !existsSync(config.databaseFile)) {
    throw new OperatorError(`there is no database ${config.databaseFile}: is BERTH_STATE_DIR the service's?`);
  }
  const now = clock.now();
  const archive = keep === undefined ? resolve(file) : join(resolve(file), nameAt(now));
  let folder: string | undefined;
  try {
    if (keep !== undefined) mkdirSync(dirname(archive), { recursive: true, mode: 0o700 });
    folder = mkdtempSync(join(dirname(archive), '.berth-backup-'));
    const made_at = formatMicros(now);
    const postgres = isPostgres ? await countBackup(config) : undefined;
    if (!isPostgres) await copyDatabaseFile(config.databaseFile, join(folder, PARTS.database));
    const others = copyOtherFiles(config, settings, folder);
    const names = isPostgres ? others : [PARTS.database, ...others];
    await pack(archive, { folder, names, stop, berth: version, made_at, ...(postgres && { postgres }) });
    noteBackup(config, now);
    if (keep !== undefined) removeOld(dirname(archive), keep);
    return { file: archive, parts: names };
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    throw new OperatorError(`cannot back up to ${archive}: ${errorMessage(error)}`, { cause: error });
  } finally {
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  }
}

/** Names that sort by time. */
const ARCHIVE_NAME = /^berth-\d{8}T\d{6}Z\.tar$/;

/** Of two backups within a second, the second replaces the first. */
function nameAt(now: Micros): string {
  return `berth-${formatMicros(now).replaceAll(/[-:]|\.\d+/g, '')}.tar`;
}

function removeOld(folder: string, keep: number): void {
  const archives = readdirSync(folder).filter((name) => ARCHIVE_NAME.test(name));
  for (const name of archives.toSorted().toReversed().slice(keep)) rmSync(join(folder, name));
}

/** Counts the backup in the database, so that a dump made before it can be told from one made after it. */
async function countBackup({ database: url, node }: Config): Promise<OnPostgres> {
  const { db, close } = await openDatabase(url);
  try {
    const { id, backups } = await db
      .updateTable('installation')
      .set((eb) => ({ backups: eb('backups', '+', 1) }))
      .returningAll()
      .executeTakeFirstOrThrow();
    return { installation: id, backups, node };
  } finally {
    await close();
  }
}

/** @returns the names of the copies in `folder`. */
function copyOtherFiles(config: Config, settings: string, folder: string): string[] {
  const sources = identityFiles(config, pathsOf(config).hostKeys).set(PARTS.settings, settings);
  const found = [...sources].filter(([, path]) => existsSync(path));
  for (const [name, path] of found) {
    mkdirSync(dirname(join(folder, name)), { recursive: true, mode: 0o700 });
    copyFileSync(path, join(folder, name));
    chmodSync(join(folder, name), 0o600);
  }
  return found.map(([name]) => name);
}
