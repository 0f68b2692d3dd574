import { mkdirSync, statSync } from 'node:fs';

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
