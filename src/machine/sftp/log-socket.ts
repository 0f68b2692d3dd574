/**
 * Links the transfer log's socket into each jail as `dev/log`: sshd's internal-sftp is confined to the jail and sends
 * its messages there. Jails share sockets through hard links, of which ext4 allows 65,000 per socket. Inherited sockets
 * keep their links. A listener that makes its own sockets has new ones after each start, and every jail has to be
 * linked again.
 */
import { linkSync, lstatSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { errorCode } from '../../foundation/base/errors.ts';
import { removeFile } from './files.ts';
import type { Paths } from './paths.ts';

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
