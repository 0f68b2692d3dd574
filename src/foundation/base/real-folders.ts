/**
 * Resolves links in the folders of the settings, once, before the settings are read. An operator may have put a folder
 * elsewhere and left a link. Below these folders berth follows no link (`beneath.ts`), and sshd's own checks see the same path as berth's.
 */
import { realpathSync } from 'node:fs';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { errorCode } from './errors.ts';

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
    // An empty variable counts as unset.
    const given = environment[name] === '' ? usual : (environment[name] ?? usual);
    // A relative path is refused when the settings are read.
    const real = isAbsolute(given) ? realPath(given) : given;
    if (real !== given) resolved[name] = real;
  }
  return resolved;
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
