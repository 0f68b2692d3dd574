/**
 * This machine as the rules see it: what makes a directory live, and what ends it. All that is written here follows from
 * the directory's row, so `apply` can be repeated at any time and mends whatever it finds.
 */
import type { DirectoryHost, HostedDirectory } from '../directories/host.ts';
import { errorCode } from '../errors.ts';
import type { Log } from '../log.ts';
import { isAuthorizedKeyRight, removeAuthorizedKey, writeAuthorizedKey } from './authorized-keys.ts';
import { isConnectionLimitRight, removeConnectionLimit, writeConnectionLimit } from './connection-limit.ts';
import { ensureFolder } from './files.ts';
import { ensureJail, isJailRight } from './jail.ts';
import { isLogSocketRight, linkLogSocket, type LogSockets } from './log-socket.ts';
import type { Paths } from './paths.ts';
import { endSessions, usersWithSessions } from './sessions.ts';
import { createTrash } from './trash.ts';
import { isUserRecordRight, removeUserRecord, writeUserRecord } from './user-record.ts';

export interface HostOptions {
  readonly paths: Paths;
  readonly log: Log;
  readonly sockets: LogSockets;
  /** Called when nothing of a removed directory is left on the disk; its row can go then. */
  readonly onRemoved: (username: string) => void;
}

export interface LocalHost extends DirectoryHost {
  /** Whether `apply` would change nothing. Reads only. */
  isApplied(directory: HostedDirectory): boolean;
  /** Gives the user's jail the transfer log's socket, if it is without it. False when there is no jail. */
  relink(username: string): Promise<boolean>;
  /** After the transfer log was started anew: gives the jails of live sessions its socket; `linkAll` follows. */
  relinkLiveSessions(): Promise<void>;
  /** Takes away what lets that user log in; true when there was anything. The jail stays. */
  removeCredentials(username: string): boolean;
  /** Resolves when every removal begun so far has ended. */
  settled(): Promise<void>;
  close(): Promise<void>;
}

/** Makes the folders that `apply` writes to, and goes on with removals that an earlier process left. */
export function createDirectoryHost({ paths, log, sockets, onRemoved }: HostOptions): LocalHost {
  prepareFolders(paths);
  const trash = createTrash({ paths, log, onEmptied: onRemoved });
  trash.resume();

  async function linkLog(username: string): Promise<void> {
    while (linkLogSocket(paths, username, sockets) === 'full') await sockets.moreSockets();
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

  function removeCredentials(username: string): boolean {
    // The limit first: from here on no login that is half-way through gets in (see openssh/admit).
    const removed = [removeConnectionLimit, removeUserRecord, removeAuthorizedKey].map((f) => f(paths, username));
    return removed.includes(true);
  }

  return {
    // Without an await but for a full socket, so what one caller read and writes here cannot be overtaken half-way.
    async apply(directory) {
      ensureJail(paths, directory);
      const linked = linkLogSocket(paths, directory.sftp_username, sockets);
      writeConnectionLimit(paths, directory);
      writeAuthorizedKey(paths, directory);
      writeUserRecord(paths, directory);
      if (linked === 'full') await linkLog(directory.sftp_username);
    },

    isApplied(directory) {
      return (
        isUserRecordRight(paths, directory) &&
        isAuthorizedKeyRight(paths, directory) &&
        isConnectionLimitRight(paths, directory) &&
        isJailRight(paths, directory) &&
        isLogSocketRight(paths, directory.sftp_username, sockets)
      );
    },

    async remove({ sftp_username: username, uid }) {
      removeCredentials(username);
      await endSessions(paths, username, uid);
      trash.discard(username);
    },

    async relinkLiveSessions() {
      for (const username of usersWithSessions(paths)) await relink(username);
    },

    relink,
    removeCredentials,
    settled: () => trash.settled(),
    close: () => trash.close(),
  };
}

/** The folders of the SFTP side. Those in which a user or helper has to find one file by name can be passed, not listed. */
export function prepareFolders(paths: Paths): void {
  ensureFolder(paths.jails, 0o755);
  ensureFolder(paths.corner, 0o700);
  ensureFolder(paths.trash, 0o700);
  ensureFolder(paths.userdb, 0o711);
  ensureFolder(paths.authorizedKeys, 0o711);
  ensureFolder(paths.limits, 0o700);
  ensureFolder(paths.sessions, 0o700);
}
