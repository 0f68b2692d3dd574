/**
 * A jail: the folder that a session is confined to.
 *
 *     <username>/          root 0755      the root that the session sees; sshd requires that only root can write to it
 *     <username>/files/    user 0700      where the session starts; all of the customer's files
 *     <username>/dev/      group 0750     for the transfer log's socket; only this user can reach it
 *
 * A jail is built out of sight and renamed into place, so a visible jail is complete. An existing one is repaired, never
 * replaced: `files` keeps its content. The folders above `files` belong to root, so no component can be a link that the
 * user made; even so, `files` itself is opened without following links.
 */
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  type Stats,
} from 'node:fs';
import { join } from 'node:path';
import type { HostedDirectory } from '../../rules/directories/host.ts';
import { isJailDiskThere, JailDiskMissing } from './jail-disk.ts';
import type { Paths } from './paths.ts';
import { errorCode } from '../../foundation/base/errors.ts';
import { removeFile } from './files.ts';

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
 * Makes the jail, or repairs the existing one. If the directory has arrived from another node and has no jail yet, its
 * files become the jail.
 * @returns whether there was no jail.
 * @throws {JailDiskMissing} when there is no jail, and the jails' disk is not mounted.
 */
export function ensureJail(paths: Paths, user: User): boolean {
  const jail = paths.jail(user.sftp_username);
  if (lstat(jail)) {
    repair(jail, user);
    return false;
  }
  if (!isJailDiskThere(paths)) throw new JailDiskMissing();
  const arrived = join(paths.arriving, user.id);
  const hasArrived = lstat(arrived) !== undefined;
  const fresh = hasArrived ? arrived : join(paths.corner, `new-${user.sftp_username}`);
  // An interrupted attempt may have left this folder. No user has logged in to it, so it has only our own folders.
  if (!hasArrived) rmSync(fresh, { recursive: true, force: true });
  repair(fresh, user);
  renameSync(fresh, jail);
  return true;
}

/** Whether there is nothing to repair. */
export function isJailRight(paths: Paths, user: User): boolean {
  const jail = paths.jail(user.sftp_username);
  return partsOf(user).every((part) => isRight(lstat(join(jail, part.name)), part));
}

/** The folders that make up a jail. */
export function jailFolders(paths: Paths, username: string): string[] {
  return ['.', 'files', 'dev'].map((name) => join(paths.jail(username), name));
}

/** Makes missing parts, and gives each part its owner and mode. */
function repair(jail: string, user: User): void {
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
  // The user may chmod `files`, since it belongs to them.
  return part.name === 'files' || (stat.mode & 0o7777) === part.mode;
}

function lstat(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

// Links the transfer log's socket into each jail as `dev/log`: sshd's internal-sftp is confined to the jail and sends
// its messages there. Jails share sockets through hard links, of which ext4 allows 65,000 per socket. Inherited
// sockets keep their links. A listener that makes its own sockets has new ones after each start, and every jail has
// to be linked again.

/** The listener's sockets, which are on the jails' file system. */
export interface LogSockets {
  /**
   * The sockets for a user's jail in order of preference. The jail is linked to the first that takes another link.
   * Empty while nothing listens.
   */
  socketsFor(username: string): readonly string[];
}

/**
 * Links a socket into a jail, replacing any other. Does nothing if one of the right sockets is linked already, or
 * nothing listens.
 */
export function linkLog(paths: Paths, username: string, sockets: LogSockets): void {
  if (isLogSocketRight(paths, username, sockets)) return;
  const log = join(paths.jail(username), 'dev', 'log');
  // Link under another name first, so that a session always finds one of the two sockets.
  const fresh = `${log}.new`;
  removeFile(fresh); // left by an interrupted attempt
  const wanted = sockets.socketsFor(username);
  for (const [index, socket] of wanted.entries()) {
    try {
      linkSync(socket, fresh);
      break;
    } catch (error) {
      if (errorCode(error) !== 'EMLINK' || index === wanted.length - 1) throw error;
    }
  }
  renameSync(fresh, log);
}

/** Whether a jail has one of the sockets, or needs none because nothing listens. */
export function isLogSocketRight(paths: Paths, username: string, sockets: LogSockets): boolean {
  const wanted = sockets.socketsFor(username);
  if (wanted.length === 0) return true;
  const found = lstatSync(join(paths.jail(username), 'dev', 'log'), { throwIfNoEntry: false });
  const isIt = (socket: string): boolean => {
    const stats = lstatSync(socket, { throwIfNoEntry: false });
    return stats !== undefined && stats.ino === found?.ino && stats.dev === found.dev;
  };
  return found !== undefined && wanted.some(isIt);
}
