/** Where the jails' files are. */
import { join } from 'node:path';
import type { FilesRoot } from './batch.ts';

/** `<jails>/<username>/files`. */
export function jailFiles(jailDir: string): FilesRoot {
  return (username) => join(jailDir, username, 'files');
}
