/**
 * What the kernel knows of the files that sessions hold open for writing (proc_pid_fd(5)). A pass over a process takes
 * some 10 µs for each of its files, so what it found is used for a while.
 */
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { LRUCache } from 'lru-cache';
import { yielder } from '../../event-loop.ts';

/** The flags of open(2) that allow writing: O_WRONLY and O_RDWR. */
const WRITABLE = 0o3;

/** How long what was found is used, in ms, and how many times as long as finding it took. */
const USED_FOR = 300;
const RESTS_PER_PASS = 30;

export interface HeldFile {
  readonly inode: number;
  /** As seen from here, with ` (deleted)` behind it when it has no name any more. */
  readonly path: Buffer;
}

export interface HeldFiles {
  /** Whether the process holds that inode open for writing; what is said may be some tenths of a second old. */
  isHeldBy(pid: number, inode: number): boolean;
  /** The same for several processes; lets others have their turn. */
  isHeldByAny(pids: Iterable<number>, inode: number): Promise<boolean>;
  /** All that it holds open for writing now. */
  heldBy(pid: number): HeldFile[];
}

export function createHeldFiles(): HeldFiles {
  const passes = new LRUCache<number, ReadonlySet<number>>({ max: 1000, ttl: USED_FOR });

  function inodesOf(pid: number): ReadonlySet<number> {
    const known = passes.get(pid);
    if (known) return known;
    const began = performance.now();
    const inodes = new Set(heldBy(pid).map(({ inode }) => inode));
    passes.set(pid, inodes, { ttl: Math.max(USED_FOR, RESTS_PER_PASS * (performance.now() - began)) });
    return inodes;
  }

  return {
    heldBy,
    isHeldBy: (pid, inode) => inodesOf(pid).has(inode),
    async isHeldByAny(pids, inode) {
      const pause = yielder();
      for (const pid of pids) {
        if (inodesOf(pid).has(inode)) return true;
        await pause();
      }
      return false;
    },
  };
}

function heldBy(pid: number): HeldFile[] {
  const folder = `/proc/${pid}/fd`;
  return orNothing(() => readdirSync(folder)).flatMap((fd) =>
    orNothing(() => {
      const stats = statSync(`${folder}/${fd}`);
      // Sockets and pipes have numbers of their own, which mean nothing here.
      if (!stats.isFile() || !isWritable(pid, fd)) return [];
      return [{ inode: stats.ino, path: readlinkSync(`${folder}/${fd}`, { encoding: 'buffer' }) }];
    }),
  );
}

/** The process has gone, or the file was closed meanwhile. */
function orNothing<T>(read: () => T[]): T[] {
  try {
    return read();
  } catch {
    return [];
  }
}

function isWritable(pid: number, fd: string): boolean {
  const flags = /^flags:\t0?([0-7]+)$/m.exec(readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'utf8'))?.[1] ?? '0';
  return (Number.parseInt(flags, 8) & WRITABLE) !== 0;
}
