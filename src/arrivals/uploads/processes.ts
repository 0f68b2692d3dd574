/** Asks the kernel about the processes that serve sessions, and the files that they hold open (proc(5)). */
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { LRUCache } from 'lru-cache';
import { isOutOfDescriptors } from '../../foundation/base/errors.ts';
import { yielder } from '../../foundation/base/event-loop.ts';
import { type FilePath, pathOf } from './file-path.ts';

export interface ServingProcess {
  readonly pid: number;
  readonly uid: number;
}

/** The live processes whose real UID is `lowest` or above. Reads all of /proc, so it is used only at the start. */
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
  return readUid(orElse('', () => readFileSync(`/proc/${pid}/status`, 'utf8')));
}

function readUid(status: string): number | undefined {
  const match = /^Uid:\t(\d+)/m.exec(status);
  return match ? Number(match[1]) : undefined;
}

/** Whether the process answers a session's requests: sshd sets its title (session.c, do_child). */
export function servesSftp(pid: number): boolean {
  return orElse('', () => readFileSync(`/proc/${pid}/cmdline`, 'utf8')).includes('internal-sftp');
}

/** Whether the process is confined to the jail that has this folder. */
export function isJailedWith(pid: number, files: string): boolean {
  return orElse(false, () => {
    const theirs = statSync(`/proc/${pid}/root/files`, { bigint: true });
    const ours = statSync(files, { bigint: true });
    return theirs.ino === ours.ino && theirs.dev === ours.dev;
  });
}

/** The name of the folder that is the process's root, '' for a process that is not confined. */
export function jailOf(pid: number): string | undefined {
  return orElse(undefined, () => basename(readlinkSync(`/proc/${pid}/root`)));
}

/** When a process began, in clock ticks since the boot: field 22 of proc_pid_stat(5). Undefined when it has gone, or cannot be asked. */
export function startTimeOf(pid: number): string | undefined {
  const status = statusOf(pid);
  return !status || isExiting(status) ? undefined : status[19];
}

/**
 * Whether the process still runs. One that exits has no descriptors any more, although it may stay in /proc for a while.
 * While berth has no descriptor left to ask with, no process has ended.
 * @param born when it began, if that is known: another process may have the pid by now.
 */
export function isAlive(pid: number, born?: string): boolean {
  const status = statusOf(pid);
  return !status || (!isExiting(status) && (born === undefined || status[19] === born));
}

/** The fields of proc_pid_stat(5), from the third: none when the process has gone, undefined when no descriptor is left to ask with. */
function statusOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch (error) {
    return isOutOfDescriptors(error) ? undefined : [];
  }
}

/**
 * How many bytes a process has read so far, from files and from its client: each request adds to it (proc_pid_io(5)). Undefined when
 * the kernel does not say.
 */
export function bytesReadBy(pid: number): number | undefined {
  const read = /^rchar: (\d+)$/m.exec(orElse('', () => readFileSync(`/proc/${pid}/io`, 'latin1')))?.[1];
  return read === undefined ? undefined : Number(read);
}

/** `PF_EXITING` in the kernel's flags of a process: set before its descriptors are closed (include/linux/sched.h). */
const EXITING = 0x4;

function isExiting(status: readonly string[]): boolean {
  return status.length === 0 || (Number(status[6]) & EXITING) !== 0;
}

/** The flags of open(2) that allow writing: O_WRONLY and O_RDWR. */
const WRITABLE = 0o3;

export interface HeldFile {
  readonly inode: number;
  /** The descriptor's number. */
  readonly fd: string;
  /** The path as seen from outside of the jail, followed by ` (deleted)` when the file has no name any more. */
  readonly path: Buffer;
}

/** The files that a process holds open for writing now. */
export function filesHeldBy(pid: number): HeldFile[] {
  return filesOf(
    pid,
    orElse([], () => readdirSync(`/proc/${pid}/fd`)),
  );
}

function filesOf(pid: number, descriptors: readonly string[]): HeldFile[] {
  const folder = `/proc/${pid}/fd`;
  return descriptors.flatMap((fd) =>
    orElse([], () => {
      const stats = statSync(`${folder}/${fd}`);
      // Sockets and pipes have numbers of their own, which mean nothing here.
      if (!stats.isFile() || !isWritable(pid, fd)) return [];
      return [{ inode: stats.ino, fd, path: readlinkSync(`${folder}/${fd}`, { encoding: 'buffer' }) }];
    }),
  );
}

/** A file that a process has open for writing. */
export interface HeldPath {
  readonly path: FilePath;
  readonly inode: number;
}

/** The files in that user's jail that a process has open for writing, one for each descriptor. */
export function pathsHeldBy(pid: number, username: string): HeldPath[] {
  return filesHeldBy(pid).flatMap((file) => pathIn(username, file));
}

function pathIn(username: string, { inode, path }: HeldFile): HeldPath[] {
  const marker = `/${username}/files/`;
  const start = path.indexOf(marker);
  return start === -1 ? [] : [{ inode, path: pathOf(path.subarray(start + marker.length)) }];
}

/** A process with more open files is not asked for all their names, since each costs some 10 µs. */
const MOST_OPEN = 64;

/** Like `pathsHeldBy`, but undefined if the process has ended, or has too many files open to ask quickly. */
export function fewPathsHeldBy(pid: number, username: string): HeldPath[] | undefined {
  const descriptors = orElse(undefined, () => readdirSync(`/proc/${pid}/fd`));
  if (!descriptors || descriptors.length > MOST_OPEN) return undefined;
  const paths = filesOf(pid, descriptors).flatMap((file) => pathIn(username, file));
  // Of a process that was exiting meanwhile, files may be missing.
  return isAlive(pid) ? paths : undefined;
}

function isWritable(pid: number, fd: string): boolean {
  const flags = /^flags:\t0?([0-7]+)$/m.exec(readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'utf8'))?.[1] ?? '0';
  return (Number.parseInt(flags, 8) & WRITABLE) !== 0;
}

/**
 * How long the result of a pass over a process's files is used, in ms: at least `TTL_MS`, and this many times as long
 * as the pass took. A pass takes some 10 µs a file.
 */
const TTL_MS = 300;
const PAUSES_PER_PASS = 30;

/** The inodes that a process had open for writing at a time, by the monotonic clock in ms. */
interface Pass {
  readonly began: number;
  /** The descriptors that it had open for each of them. */
  readonly inodes: ReadonlyMap<number, readonly string[]>;
}

/**
 * Tells which inodes processes have open for writing. What was opened some tenths of a second ago may be missing. What was closed
 * before the call does not count: an upload can be fetched as soon as it has been announced.
 */
export class HeldInodes {
  readonly #passes = new LRUCache<number, Pass>({ max: 1000, ttl: TTL_MS });

  /** Asks only for the descriptors that the last pass has found, so the cost does not grow with the open files. */
  isHeldBy(pid: number, inode: number): boolean {
    const descriptors = this.#passOf(pid).inodes.get(inode);
    return descriptors !== undefined && filesOf(pid, descriptors).some((file) => file.inode === inode);
  }

  /**
   * How often the process has the inode open for writing.
   * @param since by the monotonic clock in ms. Undefined if the last answer is older, and may not be repeated yet.
   */
  timesHeldBy(pid: number, inode: number, since: number): number | undefined {
    const { began, inodes } = this.#passOf(pid);
    return began < since ? undefined : (inodes.get(inode)?.length ?? 0);
  }

  /** Like `isHeldBy`, for several processes; yields between them. */
  async isHeldByAny(pids: Iterable<number>, inode: number): Promise<boolean> {
    const pause = yielder();
    for (const pid of pids) {
      if (this.isHeldBy(pid, inode)) return true;
      await pause();
    }
    return false;
  }

  #passOf(pid: number): Pass {
    const known = this.#passes.get(pid);
    if (known) return known;
    const began = performance.now();
    const files = Map.groupBy(filesHeldBy(pid), ({ inode }) => inode);
    const inodes = new Map(files.entries().map(([inode, same]) => [inode, same.map(({ fd }) => fd)]));
    const pass = { began, inodes };
    this.#passes.set(pid, pass, { ttl: Math.max(TTL_MS, PAUSES_PER_PASS * (performance.now() - began)) });
    return pass;
  }
}

/** Returns `otherwise` when the process has gone, the file was closed meanwhile, or the kernel cannot be asked. */
function orElse<T>(otherwise: T, read: () => T): T {
  try {
    return read();
  } catch {
    return otherwise;
  }
}
