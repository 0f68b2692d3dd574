/** Which process runs `berth serve` here: the one that holds the lock beside the database, as the kernel knows it. */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../config.ts';

/** Its process id, or undefined when none runs (proc_locks(5)). */
export function serveProcess({ stateDir }: Pick<Config, 'stateDir'>): number | undefined {
  const lock = statSync(join(stateDir, 'serve.lock'), { throwIfNoEntry: false });
  if (!lock) return undefined;
  for (const line of readFileSync('/proc/locks', 'utf8').split('\n')) {
    const [, pid, inode] = / WRITE (\d+) [\da-f]+:[\da-f]+:(\d+) /.exec(line) ?? [];
    // 0 or less: a process of another PID namespace.
    if (Number(inode) === lock.ino && Number(pid) > 0) return Number(pid);
  }
  return undefined;
}
