/**
 * Resolves links in the folders of the settings, once, before the settings are read. An operator may have put a folder
 * elsewhere and left a link. Below these folders berth follows no link (`beneath.ts`), and sshd's own checks see the same path as berth's.
 */
import { realpathSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { errorCode, OperatorError } from './errors.ts';
import { isThere } from './there.ts';

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
