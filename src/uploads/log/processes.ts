/** What the kernel knows of the processes that serve sessions (proc(5)). */
import { readFileSync, statSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';

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
  return readUid(readProc(pid, 'status'));
}

function readUid(status: string): number | undefined {
  const match = /^Uid:\t(\d+)/m.exec(status);
  return match ? Number(match[1]) : undefined;
}

/** Whether it is the process that answers a session's requests: sshd sets its title (session.c, do_child). */
export function servesSftp(pid: number): boolean {
  return readProc(pid, 'cmdline').includes('internal-sftp');
}

/** Whether the process is confined to the jail that has this folder. */
export function isJailedWith(pid: number, files: string): boolean {
  const theirs = statOrNothing(`/proc/${pid}/root/files`);
  const ours = statOrNothing(files);
  return theirs !== undefined && theirs.ino === ours?.ino && theirs.dev === ours.dev;
}

export function isAlive(pid: number): boolean {
  return statOrNothing(`/proc/${pid}`) !== undefined;
}

function readProc(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return ''; // it has gone
  }
}

function statOrNothing(path: string) {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
