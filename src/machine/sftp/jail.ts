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
