/**
 * A jail: the folder that a session is shut into.
 *
 *     <username>/          root 0755      the root that the session sees; sshd demands root's, closed to writing
 *     <username>/files/    user 0700      where it starts; all that the customer keeps
 *     <username>/dev/      group 0750     for the transfer log's socket; nobody but this user reaches it
 *
 * Built out of sight and renamed into place, so a jail that can be seen is complete. An existing one is mended, never
 * replaced: `files` keeps its content. The folders above the user's own are root's, so no component can be a link that
 * the user made; `files` itself is opened without following one all the same.
 */
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  type Stats,
} from 'node:fs';
import { join } from 'node:path';
import type { HostedDirectory } from '../directories/host.ts';
import { isJailDiskThere, JailDiskMissing } from './jail-disk.ts';
import type { Paths } from './paths.ts';

type User = Pick<HostedDirectory, 'id' | 'sftp_username' | 'uid'>;

interface Part {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

function partsOf({ uid }: User): Part[] {
  return [
    { name: '.', uid: 0, gid: 0, mode: 0o755 },
    { name: 'files', uid, gid: uid, mode: 0o700 },
    { name: 'dev', uid: 0, gid: uid, mode: 0o750 },
  ];
}

/**
 * Makes the jail, or makes the one that is there right. What has arrived from another node is made the jail, as long as there
 * is none.
 * @returns whether there was none.
 * @throws {JailDiskMissing} when there is none, and the disk of the jails is not mounted.
 */
export function ensureJail(paths: Paths, user: User): boolean {
  const jail = paths.jail(user.sftp_username);
  if (lstat(jail)) {
    mend(jail, user);
    return false;
  }
  if (!isJailDiskThere(paths)) throw new JailDiskMissing();
  const arrived = join(paths.arriving, user.id);
  const hasArrived = lstat(arrived) !== undefined;
  const fresh = hasArrived ? arrived : join(paths.corner, `new-${user.sftp_username}`);
  // An earlier attempt that was cut off: nobody has logged in to it, so it is empty but for our own folders.
  if (!hasArrived) rmSync(fresh, { recursive: true, force: true });
  mend(fresh, user);
  renameSync(fresh, jail);
  return true;
}

/** Whether there is nothing to mend. */
export function isJailRight(paths: Paths, user: User): boolean {
  const jail = paths.jail(user.sftp_username);
  return partsOf(user).every((part) => isRight(lstat(join(jail, part.name)), part));
}

/** The folders that make up a jail. */
export function jailFolders(paths: Paths, username: string): string[] {
  return ['.', 'files', 'dev'].map((name) => join(paths.jail(username), name));
}

/** Makes what is missing, and gives each part its owner and mode. */
function mend(jail: string, user: User): void {
  const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = constants;
  for (const part of partsOf(user)) {
    const path = join(jail, part.name);
    if (!lstat(path)) mkdirSync(path, 0o700);
    const fd = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    try {
      if (isRight(fstatSync(fd), part)) continue;
      fchownSync(fd, part.uid, part.gid);
      fchmodSync(fd, part.mode);
    } finally {
      closeSync(fd);
    }
  }
}

function isRight(stat: Stats | undefined, part: Part): boolean {
  if (!stat?.isDirectory() || stat.uid !== part.uid || stat.gid !== part.gid) return false;
  // The user may chmod `files`: it is theirs, and what they do to their own access is their affair.
  return part.name === 'files' || (stat.mode & 0o7777) === part.mode;
}

function lstat(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}
