/** Prepares the machine: the disk of the jails, berth's folders, and what the other parts ask about sshd and its sessions. */
import type { Config } from '../../foundation/base/config.ts';
import type { LiveSessions } from '../../rules/directories/end-session.ts';
import { checkJailDisk, claimJailDisk, jailDiskCheck } from './jail-disk.ts';
import { type Paths, pathsOf, prepareFolders } from './paths.ts';
import { type PublicHostKeys, publicHostKeys } from './public-host-keys.ts';
import { addressOf, liveSessionsOf } from './sessions.ts';
import { sshdCheck } from './sshd-listener.ts';

export interface Machine {
  readonly paths: Paths;
  readonly sessions: LiveSessions;
  isJailDiskThere(): boolean;
  isSshdUp(): boolean;
  hostKeys(): Promise<PublicHostKeys>;
  /** The client's address of the session that a process serves; undefined when the session is not this berth's. */
  addressOf(username: string, pid: number): string | undefined;
}

/** @throws {OperatorError} when the disk that is there is not that of the jails. */
export async function prepareMachine(config: Config): Promise<Machine> {
  const paths = pathsOf(config);
  const diskId = await checkJailDisk(config);
  prepareFolders(paths);
  if (diskId !== undefined) await claimJailDisk(paths, diskId);
  return {
    paths,
    sessions: liveSessionsOf(paths),
    isJailDiskThere: jailDiskCheck(paths),
    isSshdUp: sshdCheck(paths, config.sftp.port),
    hostKeys: () => publicHostKeys(paths.hostKeys, config.sftp),
    addressOf: (username, pid) => addressOf(paths, username, pid),
  };
}
