/** Every path that the SFTP side reads or writes, from the three folders of the configuration. Folders are made here too. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../config.ts';
import { ensureFolder, replaceFile } from './files.ts';

export interface Paths {
  readonly jails: string;
  /** berth's own corner among the jails, on their file system: sockets, trash, jails that are being built. 0700. */
  readonly corner: string;
  readonly trash: string;
  /** Files on their way into a directory or out of it (uploads/transit.ts). */
  readonly transit: string;
  /** Files that the checker has rejected, in a folder for each directory (checks/). */
  readonly quarantine: string;
  /** Files of directories on their way here from another node, by the directory's id (nodes/move/). */
  readonly arriving: string;
  /** Names the berth to which the jails belong, by its state folder. */
  readonly owner: string;
  /** The id of the disk that the jails are on, and the one that the state knows (jail-disk.ts). */
  readonly diskId: string;
  readonly knownDiskId: string;
  readonly state: string;
  readonly userdb: string;
  readonly authorizedKeys: string;
  readonly limits: string;
  readonly sessions: string;
  /** For each user the key that was offered last, as `openssh/authorized-keys` notes it. */
  readonly offeredKeys: string;
  /** As many bytes as logins were refused for their number (see openssh/admit). */
  readonly deniedLogins: string;
  /** Where systemd listens for what takes a power that berth.service has not (packaging/systemd/berth-quota.socket). */
  readonly quotaSocket: string;
  readonly hostKeys: string;
  /** What sshd has logged and is not recorded yet (uploads/log/journal-files.ts), and where an earlier berth kept it. */
  readonly journal: string;
  readonly spool: string;
  /** What sshd reads, written by `prepareSshd`. */
  readonly sshd: string;
  jail(username: string): string;
}

/**
 * UID and GID of `berth-keys`, as whom sshd runs openssh/authorized-keys: it alone may read the key files beside root, and
 * note which were offered.
 */
export const KEYS_ID = 1_879_048_190;

/** The name of berth's corner among the jails. No username begins with a dot. */
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

/** Makes the folders, and takes the jails for this berth if they are nobody's. Those in which a user or helper has to find one file by name can be passed, not listed. */
export function prepareFolders(paths: Paths): void {
  ensureFolder(paths.jails, 0o755);
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
 * The state folder of the berth to which the jails belong: a second berth would take away the sockets of the first, and give
 * its UIDs to other users. Undefined before the first start, and for a copy, whose inode is another.
 */
export function ownerOf({ corner, owner }: Pick<Paths, 'corner' | 'owner'>): string | undefined {
  if (!existsSync(owner)) return undefined;
  const [, inode, state] = /^(\d+) (.+)\n$/s.exec(readFileSync(owner, 'utf8')) ?? [];
  return inode === String(inodeOf(corner)) ? state : undefined;
}

function inodeOf(path: string): bigint {
  return statSync(path, { bigint: true }).ino;
}
