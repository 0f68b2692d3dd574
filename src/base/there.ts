import { statSync } from 'node:fs';

/**
 * Whether there is anything at a path. `existsSync` asks access(2), for which the capabilities of berth.service do not count:
 * in folders that root alone may enter it sees nothing. What cannot be known throws.
 */
export function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}
