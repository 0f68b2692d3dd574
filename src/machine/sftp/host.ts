/**
 * This machine as the rules see it: makes directories live, and removes them. Everything written here follows from the
 * directory's row, so `apply` can be repeated at any time and repairs whatever it finds.
 */
import type { DirectoryHost, HostedDirectory } from '../../rules/directories/host.ts';
import { errorCode } from '../../foundation/base/errors.ts';
import type { Log } from '../../foundation/base/log.ts';
import { syncAll } from '../../foundation/base/files.ts';
import { areCredentialsRight, credentialFiles, removeCredentials, writeCredentials } from './credentials.ts';
import { isJailDiskThere, JailDiskMissing } from './jail-disk.ts';
import { ensureJail, isJailRight, isLogSocketRight, jailFolders, linkLog, type LogSockets } from './jail.ts';
import { type Paths, prepareFolders } from './paths.ts';
import { kernelQuotas } from './quota.ts';
import { allSessions, endSessions, endUnwatched, liveSessions, type Session, unwatchedSessions } from './sessions.ts';
import { createTrash } from './trash.ts';

export interface HostOptions {
  readonly paths: Paths;
  readonly log: Log;
  readonly sockets: LogSockets;
  /**
   * Called when a directory that is not new gets its jail here, for example because it came from another node. Its
   * files may differ from its rows.
   */
  readonly moved?: (directory: HostedDirectory) => void;
}

export interface LocalHost extends DirectoryHost {
  /** Stops further logins; live sessions continue. `apply` undoes this. */
  lock(username: string): void;
  /** Links the transfer log's socket into the user's jail, if it is missing. Returns false when there is no jail. */
  relink(username: string): Promise<boolean>;
  /** After a restart of the transfer log: links its socket into the jails of live sessions. `linkAll` follows. */
  relinkLiveSessions(): Promise<void>;
  /** Ends sessions without a monitor that the previous call found already. A session that is just ending may finish. */
  endUnwatched(): Promise<void>;
  /** Resolves when every removal begun so far has ended. */
  drained(): Promise<void>;
  close(): Promise<void>;
}

/** Makes the folders that `apply` writes to, and continues removals that an earlier process left. */
export function createDirectoryHost({ paths, log, sockets, moved }: HostOptions): LocalHost {
  prepareFolders(paths);
  const trash = createTrash(paths, log);
  const quotas = kernelQuotas(paths.jails, paths.quotaSocket);
  let unwatched: ReadonlySet<string> = new Set();

  async function relink(username: string): Promise<boolean> {
    try {
      linkLog(paths, username, sockets);
      return true;
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return false; // deleted meanwhile, or lost
      throw error;
    }
  }

  async function blockLogins({ sftp_username: username }: { readonly sftp_username: string }): Promise<void> {
    removeCredentials(paths, username);
    await end(username);
  }

  async function end(username: string): Promise<void> {
    const left = await endSessions(paths, username);
    if (left.length > 0) log.warn({ username, processes: left }, 'killed, but still in a system call');
  }

  return {
    // `apply` writes the credentials before it waits for anything, so a later change of the same directory cannot
    // overtake them.
    async apply(directory) {
      const isNew = ensureJail(paths, directory);
      quotas.apply(directory.uid, directory.quota_bytes);
      linkLog(paths, directory.sftp_username, sockets);
      writeCredentials(paths, directory);
      if (isNew && directory.version > 1) moved?.(directory);
      if (directory.suspended === 1) await end(directory.sftp_username);
    },

    quotaObstacle: async () => quotas.obstacle(),

    isApplied(directory) {
      return (
        areCredentialsRight(paths, directory) &&
        isJailRight(paths, directory) &&
        quotas.isApplied(directory.uid, directory.quota_bytes) &&
        isLogSocketRight(paths, directory.sftp_username, sockets) &&
        (directory.suspended === 0 || liveSessions(paths, directory.sftp_username).length === 0)
      );
    },

    async endSessions({ sftp_username: username }) {
      if (liveSessions(paths, username).length > 0) await end(username);
    },
    blockLogins,
    async remove({ sftp_username: username, uid }) {
      await blockLogins({ sftp_username: username });
      if (!isJailDiskThere(paths)) throw new JailDiskMissing(); // its files would stay on that disk
      trash.discard(username);
      quotas.apply(uid, null);
    },

    async makeDurable(usernames) {
      for (const name of usernames) await syncAll([...jailFolders(paths, name), ...credentialFiles(paths, name)]);
      await syncAll([paths.jails, paths.corner, paths.trash, paths.userdb, paths.authorizedKeys, paths.limits]);
    },

    lock: (username) => void removeCredentials(paths, username),
    relink,
    async relinkLiveSessions() {
      const sessions = await allSessions(paths);
      for (const username of new Set(sessions.map((session) => session.username))) await relink(username);
    },
    async endUnwatched() {
      const found = await unwatchedSessions(paths);
      const nameOf = ({ pid, startTime }: Session): string => `${pid} ${startTime}`;
      for (const session of found.filter((one) => unwatched.has(nameOf(one)))) {
        const { username, pid } = session;
        log.warn({ username, pid }, 'ending a session whose sshd process is gone');
        endUnwatched(session);
      }
      unwatched = new Set(found.map(nameOf));
    },
    drained: () => trash.drained(),
    close: () => trash.close(),
  };
}
