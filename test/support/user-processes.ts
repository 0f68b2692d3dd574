/** The processes that run as the UID of a directory, as the kernel lists them. */
import { readdirSync, readFileSync } from 'node:fs';

/** All of them, without those that have ended and wait for their parent. */
export function pidsOf(uid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      const status = read(pid, 'status');
      return !/^State:\s+Z/m.test(status) && status.includes(`\nUid:\t${uid}\t`);
    });
}

/** The two processes of a session: one answers its requests, the other holds its connection. */
export function processesOf(uid: number): { readonly server: number; readonly network: number } {
  const pids = pidsOf(uid);
  const server = pids.find((pid) => read(pid, 'cmdline').includes('internal-sftp'));
  const network = pids.find((pid) => pid !== server);
  if (server === undefined || network === undefined) throw new Error(`no session runs as ${uid}`);
  return { server, network };
}

/** A file of proc(5); empty when the process has ended. */
function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}
