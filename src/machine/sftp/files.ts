/** Writes small files that other processes may read at any moment: a rename replaces each as a whole or not at all. */
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  mkdirSync,
  openSync,
  readFileSync,
  chmodSync,
  chownSync,
  lstatSync,
  renameSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { errorCode, OperatorError } from '../../foundation/base/errors.ts';

const { O_CREAT, O_NOFOLLOW, O_TRUNC, O_WRONLY } = constants;

/**
 * Replaces a file's content with `text`. The file is not synced: its content follows from the database, which says what
 * to write again after a power cut (directories/pending-apply.ts). It belongs to root, and its mode is exact, whatever the
 * umask.
 */
export function replaceFile(path: string, text: string, mode: number, gid = 0): void {
  // No other process reads names with this ending, and only one process writes here.
  const fresh = `${path}.new`;
  const fd = openSync(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, mode);
  try {
    try {
      fchownSync(fd, 0, gid); // we may be a user with capabilities (berth.service)
      fchmodSync(fd, mode);
      writeSync(fd, text);
    } finally {
      closeSync(fd);
    }
    renameSync(fresh, path);
  } catch (error) {
    removeFile(fresh); // on a full disk
    throw error;
  }
}

/** Whether there is a file with exactly this text, mode and group that belongs to root. */
export function isFile(path: string, text: string, mode: number, gid = 0): boolean {
  try {
    const stat = lstatSync(path);
    const isOwn = stat.isFile() && stat.uid === 0 && stat.gid === gid && (stat.mode & 0o7777) === mode;
    return isOwn && readFileSync(path, 'utf8') === text;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false;
    throw error;
  }
}

/** Removes a file; false when there was none. */
export function removeFile(path: string): boolean {
  try {
    unlinkSync(path);
    return true;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false;
    throw error;
  }
}

/**
 * Makes a folder with that mode and owner, and the folders above it. The group's id is the same as the owner's.
 * @throws {OperatorError} when something else has the name, or the folder cannot be made.
 */
export function ensureFolder(path: string, mode: number, owner = 0): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o755 });
  } catch (error) {
    // Node reports ENOENT when a folder above cannot be made.
    if (!['EROFS', 'ENOENT'].includes(errorCode(error) ?? '')) throw error;
    throw readOnlyPlace(path, error);
  }
  const stat = lstatSync(path);
  if (!stat.isDirectory()) throw new OperatorError(`${path} is not a folder: move it away, berth needs that name`);
  if (stat.uid !== owner || stat.gid !== owner) chownSync(path, owner, owner);
  if ((stat.mode & 0o7777) !== mode) chmodSync(path, mode);
}

/** The error for a path outside of the folders that the units may write to (packaging/systemd). */
export function readOnlyPlace(path = 'a file', cause?: unknown): OperatorError {
  return new OperatorError(
    `${path} cannot be written: it is read-only here. A folder outside of /var/lib/berth, /srv/berth and /run/berth has to be made, and opened to the units: BindPaths=FOLDER below [Service] in \`systemctl edit berth\`, ReadWritePaths=FOLDER in \`systemctl edit berth-sshd\``,
    { cause },
  );
}
