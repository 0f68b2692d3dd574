/**
 * Every path that the SFTP side reads or writes, derived from the three folders of the configuration. Also makes the
 * folders.
 */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../foundation/base/config.ts';
import { isThere } from '../../foundation/base/files.ts';
import { ensureFolder, replaceFile } from './files.ts';

export interface Paths {
  readonly jails: string;
  /**
   * berth's own folder among the jails, on their file system: sockets, trash, jails that are being built. Mode 0700.
   */
  readonly corner: string;
  readonly trash: string;
  /** Files on their way into or out of a directory (files/transit.ts). */
  readonly transit: string;
  /** Files that the checker has rejected, in a folder for each directory (checks/). */
  readonly quarantine: string;
  /** Files of directories on their way here from another node, by the directory's id (nodes/move/). */
  readonly arriving: string;
  /** A file that names the berth to which the jails belong, by its state folder. */
  readonly owner: string;
  /** The id of the disk that the jails are on, and the one that the state knows (jail-disk.ts). */
  readonly diskId: string;
  readonly knownDiskId: string;
  readonly state: string;
  readonly userdb: string;
  readonly authorizedKeys: string;
  readonly limits: string;
  readonly sessions: string;
  /** The keys that each user's connections offered, as `openssh/authorized-keys` notes them. */
  readonly offeredKeys: string;
  /** A file with one byte for each login that `max_connections` refused (see openssh/admit). */
  readonly deniedLogins: string;
  /**
   * The socket on which systemd takes requests that need a capability that berth.service does not have
   * (packaging/systemd/berth-quota.socket).
   */
  readonly quotaSocket: string;
  readonly hostKeys: string;
  /**
   * Lines of sshd's log that are not recorded yet (uploads/log/journal-files.ts), and where older versions kept them.
   */
  readonly journal: string;
  readonly spool: string;
  /** The files that sshd reads, written by `prepareSshd`. */
  readonly sshd: string;
  jail(username: string): string;
}

/**
 * UID and GID of `berth-keys`, the user that runs openssh/authorized-keys for sshd. Except for root, only this user may
 * read the key files and note offered keys.
 */
export const KEYS_ID = 1_879_048_190;

/** The name of berth's own folder among the jails. No username begins with a dot. */
export const CORNER = '.berth';

export function pathsOf(config: Pick<Config, 'stateDir' | 'jailDir' | 'runtimeDir'>): Paths {
  const corner = join(config.jailDir, CORNER);
  return {
    jails: config.jailDir,
    corner,
    trash: join(corner, 'trash'),
    transit: join(corner, 'transit'),
    quarantine: join(corner, 'quarantine'),
    arriving: join(corner, 'arriving'),
    owner: join(corner, 'owner'),
    diskId: join(corner, 'disk'),
    knownDiskId: join(config.stateDir, 'jails-disk'),
    state: config.stateDir,
    userdb: join(config.stateDir, 'userdb'),
    authorizedKeys: join(config.stateDir, 'authorized_keys'),
    limits: join(config.stateDir, 'limits'),
    sessions: join(config.runtimeDir, 'sessions'),
    offeredKeys: join(config.runtimeDir, 'offered-keys'),
    deniedLogins: join(config.runtimeDir, 'denied-logins'),
    quotaSocket: join(config.runtimeDir, 'quota'),
    hostKeys: join(config.stateDir, 'hostkeys'),
    journal: join(config.stateDir, 'journal'),
    spool: join(config.stateDir, 'spool'),
    sshd: join(config.stateDir, 'sshd'),
    jail: (username) => join(config.jailDir, username),
  };
}

/**
 * Makes the folders, and claims the jails for this berth if they have no owner. Folders with mode 0711 hold files that
 * a user or helper has to find by name: they can be passed through but not listed.
 */
export function prepareFolders(paths: Paths): void {
  ensureFolder(paths.jails, 0o711);
  ensureFolder(paths.corner, 0o700);
  ensureFolder(paths.trash, 0o700);
  ensureFolder(paths.transit, 0o700);
  ensureFolder(paths.userdb, 0o711);
  ensureFolder(paths.authorizedKeys, 0o711);
  ensureFolder(paths.limits, 0o700);
  ensureFolder(paths.sessions, 0o700);
  ensureFolder(paths.offeredKeys, 0o700, KEYS_ID);
  if (ownerOf(paths) === undefined) replaceFile(paths.owner, `${inodeOf(paths.corner)} ${paths.state}\n`, 0o644);
}

/**
 * The state folder of the berth to which the jails belong. A second berth would replace the sockets of the first, and
 * give its UIDs to other users. Undefined before the first start, and on a copy, whose inode differs.
 */
export function ownerOf({ corner, owner }: Pick<Paths, 'corner' | 'owner'>): string | undefined {
  if (!isThere(owner)) return undefined;
  const [, inode, state] = /^(\d+) (.+)\n$/s.exec(readFileSync(owner, 'utf8')) ?? [];
  return inode === String(inodeOf(corner)) ? state : undefined;
}

function inodeOf(path: string): bigint {
  return statSync(path, { bigint: true }).ino;
}
