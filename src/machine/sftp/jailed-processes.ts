/**
 * Finds the processes in a jail by the root directory that the kernel shows for each (proc_pid_root(5)). So it does not
 * matter whether their sshd monitor is still alive, or whether another service on this machine uses the same UID.
 */
import { readlinkSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { basename } from 'node:path';
import { yielder } from '../../foundation/base/event-loop.ts';
import { isUsername } from '../../rules/directories/host.ts';
import type { Paths } from './paths.ts';

export interface JailedProcess {
  readonly pid: number;
  readonly username: string;
}

/** All processes in the jails of this berth. */
export async function jailedProcesses(paths: Pick<Paths, 'jail'>): Promise<JailedProcess[]> {
  const pause = yielder();
  const found: JailedProcess[] = [];
  for (const name of await readdir('/proc')) {
    const username = /^\d+$/.test(name) ? jailOf(name, paths) : undefined;
    if (username !== undefined) found.push({ pid: Number(name), username });
    await pause();
  }
  return found;
}

/**
 * The user in whose jail a process is. The path of its root is that in sshd's mount namespace, so only the last
 * component is used, and the folders' inodes are compared.
 */
function jailOf(pid: string, paths: Pick<Paths, 'jail'>): string | undefined {
  try {
    const root = `/proc/${pid}/root`;
    const username = basename(readlinkSync(root));
    if (!isUsername(username)) return undefined;
    const [theirs, ours] = [root, paths.jail(username)].map((path) => statSync(path, { bigint: true }));
    return theirs?.ino === ours?.ino && theirs?.dev === ours?.dev ? username : undefined;
  } catch {
    return undefined; // it has ended, or its root is no jail
  }
}
