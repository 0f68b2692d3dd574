/** Files of berth itself: whether one is there, private ones, real folders, and syncing to the disk. */
import { chmodSync, closeSync, constants, fsyncSync, mkdirSync, openSync, realpathSync, statSync } from 'node:fs';
import { errorCode, OperatorError } from './errors.ts';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { open } from 'node:fs/promises';

/**
 * Whether there is anything at a path. Throws when that cannot be known. `existsSync` uses access(2), which ignores the capabilities of
 * berth.service, so it finds nothing in folders that only root may enter.
 */
export function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** Makes a folder of root's again if somebody has removed it, but none of the folders above it: the disk may be away. */
export function makeAgain(folder: string): void {
  if (!isThere(folder)) mkdirSync(folder, { mode: 0o700 });
}

// Files that only their owner can open.

/**
 * Makes sure that the file is there, and that nobody else can open it, whatever the umask was when it was made. A file that is
 * there is not opened: closing it would end the locks that this process has on it (fcntl(2)).
 */
export function makePrivate(file: string): void {
  try {
    closeSync(openSync(file, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600));
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
    chmodSync(file, 0o600);
  }
}

// Resolves links in the folders of the settings, once, before the settings are read. An operator may have put a
// folder elsewhere and left a link. Below these folders berth follows no link (`beneath.ts`), and sshd's own checks
// see the same path as berth's.

/** The settings that name a folder, with their defaults. */
export const FOLDERS = {
  BERTH_STATE_DIR: '/var/lib/berth',
  BERTH_JAIL_DIR: '/srv/berth/jails',
  BERTH_RUNTIME_DIR: '/run/berth',
} as const;

type Variables = Readonly<Record<string, string | undefined>>;

export function withRealFolders(environment: Variables): Variables {
  const resolved = { ...environment };
  for (const [name, usual] of Object.entries(FOLDERS)) {
    const given = folderIn(environment, name, usual);
    // A relative path is refused when the settings are read.
    const real = isAbsolute(given) ? realPath(given) : given;
    if (real !== given) resolved[name] = real;
  }
  return resolved;
}

/** An empty variable counts as unset. */
function folderIn(environment: Variables, name: string, usual: string): string {
  const given = environment[name] ?? '';
  return given === '' ? usual : given;
}

/**
 * Checks that the kernel can follow the paths of the folders, and that no file is in the way. A folder need not exist yet.
 * @throws {OperatorError} naming the setting.
 */
export function requireUsablePaths(environment: Variables): void {
  for (const [name, usual] of Object.entries(FOLDERS)) {
    const problem = problemOf(name, folderIn(environment, name, usual));
    if (problem !== undefined) throw new OperatorError(problem);
  }
}

/**
 * What a file at or above the folder of a setting means for its operator; undefined when none is there.
 * @throws {OperatorError} when the kernel cannot follow the path.
 */
export function problemOf(name: string, folder: string): string | undefined {
  const file = fileInTheWay(name, folder);
  return file === undefined ? undefined : `${name}: ${file} is not a folder: choose another place`;
}

/** The path, or the nearest above it that is there, unless that is a folder. */
function fileInTheWay(name: string, path: string): string | undefined {
  try {
    let nearest = path;
    while (!isThere(nearest) && dirname(nearest) !== nearest) nearest = dirname(nearest);
    return statSync(nearest).isDirectory() ? undefined : nearest;
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ELOOP')
      throw new OperatorError(`${name}: the links at ${path} lead back to themselves: replace them by a folder`);
    if (code === 'ENAMETOOLONG') throw new OperatorError(`${name} is longer than a path may be: ${path}`);
    return undefined;
  }
}

/** The path without links, also where its last folders have not been made yet. A link to nothing stays. */
export function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    const parent = dirname(path);
    if (errorCode(error) !== 'ENOENT' || parent === path) return path;
    return join(realPath(parent), basename(path));
  }
}

// Waits until written data is on the disk, where it survives a power cut. A new file's folder needs a sync, too, for
// its name.

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** Syncs a file, or the names in a folder. */
export function sync(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Syncs several files at once, in the thread pool. Skips missing ones. */
export async function syncAll(paths: readonly string[]): Promise<void> {
  await Promise.all(paths.map(syncIfThere));
}

async function syncIfThere(path: string): Promise<void> {
  try {
    await using file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    await file.sync();
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
}
