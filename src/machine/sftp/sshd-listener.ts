/** Finds the listening process of our sshd among all processes of the machine. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Paths } from './paths.ts';

/** The listener's process ID; undefined when none runs. */
function listenerOf({ sshd }: Pick<Paths, 'sshd'>): number | undefined {
  const file = join(sshd, 'sshd_config');
  const found = readdirSync('/proc').find((name) => /^\d+$/.test(name) && isListener(name, file));
  return found === undefined ? undefined : Number(found);
}

/**
 * Returns a check whether our own sshd listens on a port. It asks only the kernel, because sshd penalizes addresses
 * that connect and hang up.
 */
export function sshdCheck(paths: Pick<Paths, 'sshd'>, port: number): () => boolean {
  const file = join(paths.sshd, 'sshd_config');
  let listener: number | undefined;
  return () => {
    const sockets = listeningOn(port);
    if (sockets.size === 0) return false;
    if (listener === undefined || !isListener(String(listener), file)) listener = listenerOf(paths);
    return listener !== undefined && filesOf(listener).some((target) => sockets.has(target));
  };
}

/** The connections that have not logged in yet (sshd_config(5), MaxStartups). */
export interface Startups {
  readonly waiting: number;
  /** From this many on, sshd closes some new connections. */
  readonly some: number;
  /** From this many on, it closes all. */
  readonly all: number;
}

/** As the listener's title counts them; undefined when none runs. */
export function startupsOf(paths: Pick<Paths, 'sshd'>): Startups | undefined {
  const listener = listenerOf(paths);
  const title = listener === undefined ? '' : titleOf(String(listener));
  const [found, waiting, some, all] = /\[listener\] (\d+) of (\d+)-(\d+) startups/.exec(title) ?? [];
  return found === undefined ? undefined : { waiting: Number(waiting), some: Number(some), all: Number(all) };
}

function titleOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return ''; // it has ended
  }
}

/**
 * Whether a process is our listener. sshd sets its title to `sshd: <command line> [listener] …`. A listener in a
 * container has the same paths, but another PID namespace.
 */
function isListener(pid: string, config: string): boolean {
  try {
    const title = titleOf(pid);
    const isOurs = title.startsWith('sshd: ') && title.includes(` -f ${config} `) && title.includes('[listener]');
    return isOurs && readlinkSync(`/proc/${pid}/ns/pid`) === readlinkSync('/proc/self/ns/pid');
  } catch {
    return false; // it has ended
  }
}

/** The sockets that listen on a port, as /proc/PID/fd names them (proc_net(5): 0A is LISTEN). */
function listeningOn(port: number): Set<string> {
  const local = port.toString(16).toUpperCase().padStart(4, '0');
  const found = new Set<string>();
  for (const name of ['tcp', 'tcp6']) {
    for (const line of linesOf(`/proc/self/net/${name}`)) {
      const [, address = '', , state, , , , , , inode] = line.trim().split(/\s+/);
      if (state === '0A' && address.endsWith(`:${local}`)) found.add(`socket:[${inode}]`);
    }
  }
  return found;
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n');
  } catch {
    return []; // a machine without IPv6
  }
}

function filesOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
  } catch {
    return []; // it has ended
  }
}

/** How long a reload may take on a busy machine, and how often to look, in ms. */
const RELOAD_MS = 10_000;
const LOOK_MS = 20;

/**
 * Makes our sshd read its configuration and keys again: it re-executes itself, and sessions continue (sshd(8), SIGHUP). Waits until it
 * listens again, on a new socket: until then it refuses connections, and is not found.
 * @returns the process, and whether it has listened again in time; undefined when none runs.
 */
export async function reloadSshd(
  paths: Pick<Paths, 'sshd'>,
  port: number,
): Promise<{ readonly pid: number; readonly isDone: boolean } | undefined> {
  const pid = listenerOf(paths);
  if (pid === undefined) return undefined;
  const before = listeningOn(port);
  const config = join(paths.sshd, 'sshd_config');
  const isDone = (): boolean => {
    const now = listeningOn(port).difference(before);
    return isListener(String(pid), config) && filesOf(pid).some((target) => now.has(target));
  };
  process.kill(pid, 'SIGHUP');
  const until = performance.now() + RELOAD_MS;
  while (!isDone() && performance.now() < until) await setTimeout(LOOK_MS);
  return { pid, isDone: isDone() };
}
