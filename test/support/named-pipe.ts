/** A pipe for a child's output that can be opened again through /proc, as a container's can. Those of Node are sockets. */
import { execFileSync } from 'node:child_process';
import { constants, mkdtempSync, openSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Its end for the child, to be closed once that has it, and our own. */
export function namedPipe(): { readonly writeEnd: number; readonly readEnd: Socket } {
  const dir = mkdtempSync(join(tmpdir(), 'berth-pipe-'));
  try {
    const path = join(dir, 'pipe');
    execFileSync('mkfifo', [path]);
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const readEnd = new Socket({ fd, readable: true, writable: false });
    readEnd.unref();
    return { readEnd, writeEnd: openSync(path, constants.O_WRONLY) };
  } finally {
    rmSync(dir, { recursive: true });
  }
}
