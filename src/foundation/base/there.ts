import { statSync } from 'node:fs';

/**
 * Whether there is anything at a path. Throws when that cannot be known. `existsSync` uses access(2), which ignores the capabilities of
 * berth.service, so it finds nothing in folders that only root may enter.
 */
export function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}
