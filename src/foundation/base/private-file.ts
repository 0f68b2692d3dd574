/** Files that only their owner can open. */
import { chmodSync, closeSync, constants, openSync } from 'node:fs';
import { errorCode } from './errors.ts';

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
