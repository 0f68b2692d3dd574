/**
 * A jail: the folder that a session is shut into.
 *
 *     <username>/          root 0755      the root that the session sees; sshd demands root's, closed to writing
 *     <username>/files/    user 0700      where it starts; all that the customer keeps
 *     <username>/dev/      group 0750     for the transfer log's socket; nobody but this user reaches it
 *
 * Built out of sight and renamed into place, so a jail that can be seen is complete. What is there already is mended, never
 * replaced: `files` keeps its content. The folders above the user's own are root's, so no component can be a link that
 * the user made; `files` itself is opened without following one all the same.
 */
import {
  chmodSync,
  chownSync,
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
import { errorCode } from '../errors.ts';
import type { Paths } from './paths.ts';

type User = Pick<HostedDirectory, 'sftp_username' | 'uid'>;

interface Part {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

function partsOf(user: User): Part[] {
  return [
    { name: '.', uid: 0, gid: 0, mode: 0o755 },
    { name: 'files', uid: user.uid, gid: user.uid, mode: 0o700 },
    { name: 'dev', uid: 0, gid: user.uid, mode: 0o750 },
  ];
}

/** Makes the jail, or makes the one that is there right. */
export function ensureJail(paths: Paths, user: User): void {
  const jail = paths.jail(user.sftp_username);
  if (lstatOrNull(jail) === null) buildJail(paths, user);
  else for (const part of partsOf(user)) mend(join(jail, part.name), part);
}

/** Whether there is nothing to mend. */
export function isJailRight(paths: Paths, user: User): boolean {
  const jail = paths.jail(user.sftp_username);
  return partsOf(user).every((part) => {
    const stat = lstatOrNull(join(jail, part.name));
    return stat !== null && isRight(stat, part);
  });
}

function buildJail(paths: Paths, user: User): void {
  const fresh = join(paths.corner, `new-${user.sftp_username}`);
  try {
    mkdirSync(fresh, 0o755);
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
    // An earlier attempt was cut off. Nobody has logged in to it, so it is empty but for our own folders.
    rmSync(fresh, { recursive: true });
    mkdirSync(fresh, 0o755);
  }
  for (const part of partsOf(user)) {
    const path = join(fresh, part.name);
    if (part.name !== '.') mkdirSync(path, part.mode);
    chownSync(path, part.uid, part.gid); // root's too: we may be a user with capabilities (berth.service)
    chmodSync(path, part.mode); // mkdir's mode is subject to the umask
  }
  renameSync(fresh, paths.jail(user.sftp_username));
}

function mend(path: string, part: Part): void {
  if (lstatOrNull(path) === null) mkdirSync(path, 0o700);
  const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = constants;
  const fd = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  try {
    const stat = fstatSync(fd);
    if (isRight(stat, part)) return;
    fchownSync(fd, part.uid, part.gid);
    fchmodSync(fd, part.mode);
  } finally {
    closeSync(fd);
  }
}

function isRight(stat: Stats, part: Part): boolean {
  if (!stat.isDirectory() || stat.uid !== part.uid || stat.gid !== part.gid) return false;
  // The user may chmod `files`: it is theirs, and what they do to their own access is their affair.
  return part.name === 'files' || (stat.mode & 0o7777) === part.mode;
}

function lstatOrNull(path: string): Stats | null {
  return lstatSync(path, { throwIfNoEntry: false }) ?? null;
}
