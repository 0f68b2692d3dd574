/**
 * The second half of `berth restore`: what was made ready takes its place. A machine has either its old state or the restored
 * one, whole, wherever it is interrupted:
 *
 * 1. The restored database and a folder with the other files are complete on the disk, beside what is in use.
 * 2. That folder gets the name `restore.pending`. From here on the restored state is the one that counts.
 * 3. Each file takes its place with a rename; the folder goes.
 *
 * Between 2 and 3 nothing may use the state: `berth serve` and `berth prepare` finish the restore first, and other commands
 * refuse. What is replaced is kept beside, as `….before-restore-<time>`.
 */
import { existsSync, linkSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Config } from '../config.ts';
import { sync } from '../db/copy.ts';
import { lockInstance } from '../db/instance-lock.ts';
import { isUnfinished, pendingRestore } from '../db/unfinished-restore.ts';
import { pathsOf } from '../sftp/paths.ts';
import { PARTS } from './archive.ts';

/** In the folder: the ending of what is kept, the same when a restore is finished later. */
const ENDING = 'ending';

/** Where the restored database waits: on the file system of the one that it replaces. */
export function waitingDatabase({ databaseFile }: Pick<Config, 'databaseFile'>): string {
  return `${databaseFile}.restored`;
}

/** One `berth serve` or `berth restore` per state folder. */
export function lockState({ stateDir }: Config): Disposable {
  return lockInstance(join(stateDir, 'serve.lock'));
}

/** Steps 1 and 2, for a folder in `stateDir` whose files have their final modes. Their own folders exist. */
export function commit(config: Config, stage: string): void {
  writeFileSync(join(stage, ENDING), `before-restore-${new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '')}`);
  for (const entry of readdirSync(stage, { recursive: true, encoding: 'utf8' })) sync(join(stage, entry));
  for (const path of [stage, waitingDatabase(config), dirname(config.databaseFile)]) sync(path);
  renameSync(stage, pendingRestore(config));
  sync(config.stateDir);
}

/**
 * Step 3, as often as it takes.
 * @returns what was replaced, under its new name.
 */
export function place(config: Config): string[] {
  const pending = pendingRestore(config);
  const ending = readText(join(pending, ENDING));
  const kept: string[] = [];
  const keep = (path: string, beside: string): void => {
    if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) return;
    rmSync(beside, { force: true });
    linkSync(path, beside);
    kept.push(beside);
  };

  for (const [name, path] of destinations(config, pending)) {
    const from = join(pending, name);
    if (!existsSync(from)) continue;
    if (existsSync(path) && readFileSync(path).equals(readFileSync(from))) continue;
    keep(path, `${path}.${ending}`);
    renameSync(from, path);
    sync(dirname(path));
  }

  const { databaseFile } = config;
  const waiting = waitingDatabase(config);
  if (existsSync(waiting)) {
    for (const end of ['', '-wal']) keep(databaseFile + end, `${databaseFile}.${ending}${end}`);
    for (const end of ['-wal', '-shm']) rmSync(databaseFile + end, { force: true });
    renameSync(waiting, databaseFile);
    sync(dirname(databaseFile));
  }
  rmSync(pending, { recursive: true, force: true });
  sync(config.stateDir);
  return kept;
}

function destinations(config: Config, pending: string): [name: string, path: string][] {
  const folder = join(pending, PARTS.hostKeys);
  const { hostKeys } = pathsOf(config);
  const keys = existsSync(folder) ? readdirSync(folder) : [];
  const found = keys.map((name): [string, string] => [join(PARTS.hostKeys, name), join(hostKeys, name)]);
  // One that the operator got elsewhere is not ours to replace.
  if (config.tls.selfSigned) found.push([PARTS.key, config.tls.key], [PARTS.certificate, config.tls.cert]);
  return found;
}

function readText(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8') : 'before-restore';
}

/**
 * Finishes a restore that was interrupted, if there is one.
 * @returns the same configuration, for who uses the state next.
 * @throws {OperatorError} when somebody else does so right now.
 */
export function finishRestore(config: Config): Config {
  if (!isUnfinished(config)) return config;
  using _lock = lockState(config);
  if (isUnfinished(config)) place(config);
  return config;
}
