/** What the kernel knows of processes and the files they hold open (proc(5)). */
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';

/** The flags of open(2) that allow writing: O_WRONLY and O_RDWR. */
const WRITABLE = 0o3;

export interface ServingProcess {
  readonly pid: number;
  readonly uid: number;
}

/** The live processes whose real UID is `lowest` or above. Reads all of /proc, so it is for the start. */
export async function processesFrom(lowest: number): Promise<ServingProcess[]> {
  const found: ServingProcess[] = [];
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const uid = readUid(await readFile(`/proc/${name}/status`, 'utf8').catch(() => ''));
    if (uid !== undefined && uid >= lowest) found.push({ pid: Number(name), uid });
  }
  return found;
}

/** The real UID of a process, or undefined when it has gone. */
export function uidOf(pid: number): number | undefined {
  try {
    return readUid(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return undefined;
  }
}

function readUid(status: string): number | undefined {
  const match = /^Uid:\t(\d+)/m.exec(status);
  return match ? Number(match[1]) : undefined;
}

/** Whether it is the process that answers a session's requests: sshd sets its title (session.c, do_child). */
export function servesSftp(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('internal-sftp');
  } catch {
    return false;
  }
}

/** Whether the process is confined to the jail that has this folder. */
export function isJailedWith(pid: number, files: string): boolean {
  const [theirs, ours] = [`/proc/${pid}/root/files`, files].map((path) => {
    try {
      return statSync(path, { bigint: true });
    } catch {
      return undefined; // the process has gone
    }
  });
  return theirs !== undefined && theirs.ino === ours?.ino && theirs.dev === ours.dev;
}

export function isAlive(pid: number): boolean {
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false }) !== undefined;
}

/** Whether the process holds that inode open for writing. */
export function writesInode(pid: number, inode: number): boolean {
  return descriptors(pid).some((fd) => {
    const stats = statSync(`/proc/${pid}/fd/${fd}`, { throwIfNoEntry: false });
    // Sockets and pipes have numbers of their own, which mean nothing here.
    return stats?.ino === inode && stats.isFile() && isWritable(pid, fd);
  });
}

/** The paths that the process holds open for writing, from behind `marker` on. */
export function writtenPaths(pid: number, marker: string): Buffer[] {
  return descriptors(pid).flatMap((fd) => {
    if (!isWritable(pid, fd)) return [];
    try {
      const path = readlinkSync(`/proc/${pid}/fd/${fd}`, { encoding: 'buffer' });
      const start = path.indexOf(marker);
      return start === -1 ? [] : [path.subarray(start + marker.length)];
    } catch {
      return []; // closed in the meantime
    }
  });
}

function descriptors(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`);
  } catch {
    return []; // the process has gone
  }
}

function isWritable(pid: number, fd: string): boolean {
  try {
    const flags = /^flags:\t0?([0-7]+)$/m.exec(readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'utf8'))?.[1] ?? '0';
    return (Number.parseInt(flags, 8) & WRITABLE) !== 0;
  } catch {
    return false;
  }
}
