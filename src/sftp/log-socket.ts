/**
 * The transfer log's socket in each jail, as `dev/log`: sshd's internal-sftp, shut into the jail, sends its messages there.
 * All jails share one socket by hard links; ext4 allows 65,000 of them, so the listener opens a further one when asked.
 * A listener that was started anew has new sockets, and every jail has to be linked again.
 */
import { linkSync, lstatSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { errorCode } from '../errors.ts';
import { removeFile } from './files.ts';
import type { Paths } from './paths.ts';

/** The listener, as far as the jails have to know it. Its sockets lie on the jails' file system. */
export interface LogSockets {
  /** The path of the socket that jails are linked to now; undefined while nobody listens. */
  currentSocket(): string | undefined;
  /** Opens a further socket, which is the current one from then on. */
  moreSockets(): Promise<string>;
}

/**
 * Links the current socket into a jail, in place of any other, unless it is linked already or nobody listens.
 * False when that socket has all the links that the file system allows.
 */
export function linkLogSocket(paths: Paths, username: string, sockets: LogSockets): boolean {
  if (isLogSocketRight(paths, username, sockets)) return true;
  const log = join(paths.jail(username), 'dev', 'log');
  // Beside it under another name first: a session must find either socket, and never none.
  const fresh = `${log}.new`;
  removeFile(fresh); // of an attempt that was cut off
  try {
    linkSync(sockets.currentSocket() ?? '', fresh);
  } catch (error) {
    if (errorCode(error) === 'EMLINK') return false;
    throw error;
  }
  renameSync(fresh, log);
  return true;
}

/** The same, by a further socket where the current one has all its links. */
export async function linkLog(paths: Paths, username: string, sockets: LogSockets): Promise<void> {
  while (!linkLogSocket(paths, username, sockets)) await sockets.moreSockets();
}

/** Whether a jail has the current socket, or needs none because nobody listens. */
export function isLogSocketRight(paths: Paths, username: string, sockets: LogSockets): boolean {
  const socket = sockets.currentSocket();
  if (socket === undefined) return true;
  const wanted = lstatSync(socket, { throwIfNoEntry: false });
  const found = lstatSync(join(paths.jail(username), 'dev', 'log'), { throwIfNoEntry: false });
  return found !== undefined && wanted !== undefined && found.ino === wanted.ino && found.dev === wanted.dev;
}
