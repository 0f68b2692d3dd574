/**
 * The transfer log's socket in each jail, as `dev/log`: sshd's internal-sftp, shut into the jail, sends its messages there.
 * Jails share sockets by hard links; ext4 allows a socket 65,000 of them. Sockets that outlive the listener keep their links; one that
 * makes its own has new ones with each start, and every jail has to be linked again.
 */
import { linkSync, lstatSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { errorCode } from '../errors.ts';
import { removeFile } from './files.ts';
import type { Paths } from './paths.ts';

/** The listener, as far as the jails have to know it. Its sockets lie on the jails' file system. */
export interface LogSockets {
  /** The sockets in the order in which a user's jail is to be linked to one: to the first that takes a further link. None while nobody listens. */
  socketsFor(username: string): readonly string[];
}

/** Links a socket into a jail, in place of any other, unless one is linked already or nobody listens. */
export function linkLog(paths: Paths, username: string, sockets: LogSockets): void {
  if (isLogSocketRight(paths, username, sockets)) return;
  const log = join(paths.jail(username), 'dev', 'log');
  // Beside it under another name first: a session must find either socket, and never none.
  const fresh = `${log}.new`;
  removeFile(fresh); // of an attempt that was cut off
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

/** Whether a jail has one of the sockets, or needs none because nobody listens. */
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
