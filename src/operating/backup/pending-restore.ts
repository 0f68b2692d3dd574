/**
 * The second half of `berth restore`: the restored files replace the machine's. Wherever it is interrupted, a machine has
 * either its old state or the restored one, whole:
 *
 * 1. The restored SQLite database and a folder with the other files are complete on the disk, beside those in use.
 * 2. That folder is renamed `restore.pending`. From here on the restored state is the one that counts.
 * 3. Each file is renamed to its place, and the folder is removed.
 *
 * Between 2 and 3 nothing may use the state: `berth serve` and `berth prepare` finish the restore first, and other commands
 * refuse. Every replaced file is kept beside its successor, as `….before-restore-<time>`.
 */
import { existsSync, linkSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Config } from '../../foundation/base/config.ts';
import { lockInstance } from '../../foundation/db/instance-lock.ts';
import { isBlank } from '../../foundation/base/database-place.ts';
import { isUnfinished, pendingRestore } from '../../foundation/db/unfinished-restore.ts';
import { sync } from '../../foundation/base/files.ts';
import { identityFiles, PARTS } from './archive.ts';

/** A file in the folder that holds the suffix of kept files, so that a restore that is finished later uses the same one. */
const SUFFIX = 'suffix';

/** Where the restored database waits: on the same file system as the one that it replaces. */
export function waitingDatabase({ databaseFile }: Pick<Config, 'databaseFile'>): string {
  return `${databaseFile}.restored`;
}

/** One `berth serve` or `berth restore` per state folder. */
export function lockState({ stateDir }: Config): Disposable {
  return lockInstance(join(stateDir, 'serve.lock'));
}

/** The end of the name under which a replaced file is kept: the reason, and the time. */
export function keptSince(why: string): string {
  return `${why}-${new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '')}`;
}

/** Steps 1 and 2, for a folder in `stateDir` whose files have their final modes. The destination folders exist. */
export function commitRestore(config: Config, folder: string): void {
  writeFileSync(join(folder, SUFFIX), keptSince('before-restore'));
  for (const entry of readdirSync(folder, { recursive: true, encoding: 'utf8' })) sync(join(folder, entry));
  const waiting = waitingDatabase(config);
  for (const path of [folder, ...(existsSync(waiting) ? [waiting] : []), dirname(config.databaseFile)]) sync(path);
  renameSync(folder, pendingRestore(config));
  sync(config.stateDir);
}

/**
 * Step 3, which may be repeated.
 * @returns the new names of the files that were replaced.
 */
export function applyRestore(config: Config): string[] {
  const pending = pendingRestore(config);
  const suffix = existsSync(join(pending, SUFFIX)) ? readFileSync(join(pending, SUFFIX), 'utf8') : 'before-restore';
  const kept: string[] = [];
  const keep = (path: string, beside: string): void => {
    if (isBlank(path)) return;
    rmSync(beside, { force: true });
    linkSync(path, beside);
    kept.push(beside);
  };

  for (const [name, path] of identityFiles(config, join(pending, PARTS.hostKeys))) {
    const from = join(pending, name);
    if (!existsSync(from)) continue;
    if (existsSync(path) && readFileSync(path).equals(readFileSync(from))) continue;
    keep(path, `${path}.${suffix}`);
    renameSync(from, path);
    sync(dirname(path));
  }

  const { databaseFile } = config;
  const waiting = waitingDatabase(config);
  if (existsSync(waiting)) {
    for (const end of ['', '-wal']) keep(databaseFile + end, `${databaseFile}.${suffix}${end}`);
    for (const end of ['-wal', '-shm']) rmSync(databaseFile + end, { force: true });
    renameSync(waiting, databaseFile);
    sync(dirname(databaseFile));
  }
  rmSync(pending, { recursive: true, force: true });
  sync(config.stateDir);
  return kept;
}

/**
 * Finishes a restore that was interrupted, if there is one.
 * @returns `config`, for chaining.
 * @throws {OperatorError} while another process uses the state.
 */
export function finishRestore(config: Config): Config {
  if (!isUnfinished(config)) return config;
  using _lock = lockState(config);
  if (isUnfinished(config)) applyRestore(config);
  return config;
}
