/**
 * This machine as the rules see it: what makes a directory live, and what ends it. All that is written here follows from
 * the directory's row, so `apply` can be repeated at any time and mends whatever it finds.
 */
import type { DirectoryHost, HostedDirectory } from '../directories/host.ts';
import { errorCode } from '../errors.ts';
import type { Log } from '../log.ts';
import { areCredentialsRight, removeCredentials, writeCredentials } from './credentials.ts';
import { ensureJail, isJailRight } from './jail.ts';
import { isLogSocketRight, linkLogSocket, type LogSockets } from './log-socket.ts';
import { type Paths, prepareFolders } from './paths.ts';
import { allSessions, endSessions } from './sessions.ts';
import { createTrash } from './trash.ts';

export interface HostOptions {
  readonly paths: Paths;
  readonly log: Log;
  readonly sockets: LogSockets;
}

export interface LocalHost extends DirectoryHost {
  /** Whether `apply` would change nothing. Reads only. */
  isApplied(directory: HostedDirectory): boolean;
  /** Gives the user's jail the transfer log's socket, if it is without it. False when there is no jail. */
  relink(username: string): Promise<boolean>;
  /** After the transfer log was started anew: gives the jails of live sessions its socket; `linkAll` follows. */
  relinkLiveSessions(): Promise<void>;
  /** Resolves when every removal begun so far has ended. */
  settled(): Promise<void>;
  close(): Promise<void>;
}

/** Makes the folders that `apply` writes to, and goes on with removals that an earlier process left. */
export function createDirectoryHost({ paths, log, sockets }: HostOptions): LocalHost {
  prepareFolders(paths);
  const trash = createTrash(paths, log);

  async function linkLog(username: string): Promise<void> {
    while (!linkLogSocket(paths, username, sockets)) await sockets.moreSockets();
  }

  async function relink(username: string): Promise<boolean> {
    try {
      await linkLog(username);
      return true;
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return false; // deleted meanwhile, or lost
      throw error;
    }
  }

  return {
    // Waits for nothing but a further socket, so a later change of the same directory cannot overtake this one half-way.
    async apply(directory) {
      ensureJail(paths, directory);
      const linked = linkLogSocket(paths, directory.sftp_username, sockets);
      writeCredentials(paths, directory);
      if (!linked) await linkLog(directory.sftp_username);
    },

    isApplied(directory) {
      return (
        areCredentialsRight(paths, directory) &&
        isJailRight(paths, directory) &&
        isLogSocketRight(paths, directory.sftp_username, sockets)
      );
    },

    async remove({ sftp_username: username, uid }) {
      removeCredentials(paths, username);
      await endSessions(paths, username, uid);
      trash.discard(username);
    },

    relink,
    async relinkLiveSessions() {
      for (const username of new Set(allSessions(paths).map((session) => session.username))) await relink(username);
    },
    settled: () => trash.settled(),
    close: () => trash.close(),
  };
}
