/** Small files that others read at any moment: replaced whole, by a rename, or not at all. */
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
import { errorCode, OperatorError } from '../errors.ts';

const { O_CREAT, O_NOFOLLOW, O_TRUNC, O_WRONLY } = constants;

/**
 * Puts `text` in place of whatever file has that name. Not synced to the disk: what lies here follows from the database,
 * which says what to write anew after a power cut (directories/unapplied.ts). Root's; the mode is exact, whatever the umask.
 */
export function replaceFile(path: string, text: string, mode: number, gid = 0): void {
  // No name that others look for ends like this, and only one process writes here.
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

/** Whether that is a file of exactly this text and mode, root's and of that group. */
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
 * Makes a folder, and those above it, with that mode: root's, or that user's and its group's.
 * @throws {OperatorError} when something else has its name, or nothing can be made there.
 */
export function ensureFolder(path: string, mode: number, owner = 0): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o755 });
  } catch (error) {
    // Node says ENOENT when a folder above cannot be made.
    if (!['EROFS', 'ENOENT'].includes(errorCode(error) ?? '')) throw error;
    throw readOnlyPlace(path, error);
  }
  const stat = lstatSync(path);
  if (!stat.isDirectory()) throw new OperatorError(`${path} is not a folder: move it away, berth needs that name`);
  if (stat.uid !== owner || stat.gid !== owner) chownSync(path, owner, owner);
  if ((stat.mode & 0o7777) !== mode) chmodSync(path, mode);
}

/** The units see most of the machine read-only, or not at all (packaging/systemd). */
export function readOnlyPlace(path = 'a file', cause?: unknown): OperatorError {
  return new OperatorError(
    `${path} cannot be written: it is read-only here. A folder outside of /var/lib/berth, /srv/berth and /run/berth has to be made, and opened to the units: BindPaths=FOLDER below [Service] in \`systemctl edit berth\`, ReadWritePaths=FOLDER in \`systemctl edit berth-sshd\``,
    { cause },
  );
}
