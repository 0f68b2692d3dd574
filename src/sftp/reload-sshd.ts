/** Tells our sshd to read its configuration and keys anew: it executes itself, and sessions go on (sshd(8), SIGHUP). */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Paths } from './paths.ts';

/** @returns the process that was told; undefined when none runs. */
export function reloadSshd({ sshd }: Pick<Paths, 'sshd'>): number | undefined {
  const file = join(sshd, 'sshd_config');
  const listener = readdirSync('/proc').find((name) => /^\d+$/.test(name) && isListener(name, file));
  if (listener === undefined) return undefined;
  process.kill(Number(listener), 'SIGHUP');
  return Number(listener);
}

/** sshd titles its listener `sshd: <command line> [listener] …`. One of a container has the same paths, but another namespace. */
function isListener(pid: string, config: string): boolean {
  try {
    const title = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
    const isOurs = title.startsWith('sshd: ') && title.includes(` -f ${config} `) && title.includes('[listener]');
    return isOurs && readlinkSync(`/proc/${pid}/ns/pid`) === readlinkSync('/proc/self/ns/pid');
  } catch {
    return false; // it has ended
  }
}
