/**
 * Lists and ends live sessions. `openssh/admit` registers each in a file named by the PID of the sshd process that
 * monitors the connection, with that process's start time and the client's address. A file whose process has ended is
 * ignored; a later login removes it. Processes that a killed monitor leaves in its jail count as a session, until they
 * are ended.
 */
import { readdirSync, readFileSync, readlinkSync, rmdirSync, statSync } from 'node:fs';
import { uptime } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Micros } from '../../foundation/base/clock.ts';
import type { LiveSessions } from '../../rules/directories/end-session.ts';
import { errorCode } from '../../foundation/base/errors.ts';
import { removeFile } from './files.ts';
import { isUsername } from '../../rules/directories/host.ts';
import type { Paths } from './paths.ts';
import { readdir } from 'node:fs/promises';
import { yielder } from '../../foundation/base/event-loop.ts';

export interface Session {
  readonly username: string;
  /** The process ID of the monitor, or of a process that it left behind. */
  readonly pid: number;
  readonly startTime: string;
  /** The client's address as sshd saw it; empty when the monitor is gone. */
  readonly address: string;
  /** When the user logged in. */
  readonly since: Micros;
}

/** How long to wait for killed processes to end, in ms. */
const KILL_TIMEOUT_MS = 5000;

/** The live sessions of one user that have a monitor. */
export function liveSessions(paths: Pick<Paths, 'sessions'>, username: string): Session[] {
  const pids = names(join(paths.sessions, username)).filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => registered(paths, username, Number(pid)) ?? []);
}

/** All live sessions, oldest first. */
export async function allSessions(paths: Pick<Paths, 'jail' | 'sessions'>): Promise<Session[]> {
  const users = names(paths.sessions).filter(isUsername);
  const live = users.flatMap((username) => liveSessions(paths, username));
  return [...live, ...(await unwatchedSessions(paths))].toSorted((a, b) => a.since - b.since);
}

/**
 * Sessions without a monitor: processes in a jail whose parent is neither in a jail nor sshd. Registration is not
 * considered, so that a change of `BERTH_RUNTIME_DIR` ends no sessions.
 */
export async function unwatchedSessions(paths: Pick<Paths, 'jail'>): Promise<Session[]> {
  const jailed = await jailedProcesses(paths);
  const pids = new Set(jailed.map(({ pid }) => pid));
  return jailed.flatMap(({ pid, username }) => {
    const startTime = startTimeOf(pid);
    const parent = Number(statOf(pid)?.[1]);
    const isWatched = pids.has(parent) || (readOrNull(`/proc/${parent}/comm`) ?? '').startsWith('sshd');
    if (startTime === undefined || isWatched) return [];
    const since = Math.floor((Date.now() - uptime() * 1000 + Number(startTime) * 10) * 1000);
    return [{ username, pid, startTime, address: '', since }];
  });
}

/**
 * The client's address of the session that a process serves. The process is a grandchild of the session's monitor.
 * Undefined if the session is not registered here: another instance of berth may have given out the same UID.
 */
export function addressOf(paths: Pick<Paths, 'sessions'>, username: string, pid: number): string | undefined {
  for (const ancestor of ancestorsOf(pid)) {
    const session = registered(paths, username, ancestor);
    if (session) return session.address;
  }
  return undefined;
}

/** A process and its ancestors, as many as there are from a process in a jail to its monitor. */
function ancestorsOf(pid: number): number[] {
  const found: number[] = [];
  for (let each = pid; found.length < 4 && each > 1; each = Number(statOf(each)?.[1] ?? 0)) found.push(each);
  return found;
}

/**
 * The live session that a process monitors. Never init's: a signal to its group would reach all processes (kill(2),
 * -1).
 */
function registered(paths: Pick<Paths, 'sessions'>, username: string, pid: number): Session | undefined {
  if (pid <= 1) return undefined;
  const file = join(paths.sessions, username, String(pid));
  const [startTime = '', address = ''] = (readOrNull(file) ?? '').trim().split(' ');
  if (startTime === '' || startTimeOf(pid) !== startTime) return undefined;
  const since = Math.floor((statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) * 1000);
  return { username, pid, startTime, address, since };
}

/**
 * Ends every session of a user: kills its monitors and all processes in its jail, until none is left. The user's limit
 * file must be removed before, so that no further login registers.
 * @returns the processes that are still in a system call after some seconds; they end as soon as that call returns.
 */
export async function endSessions(paths: Paths, username: string): Promise<readonly number[]> {
  const deadline = performance.now() + KILL_TIMEOUT_MS;
  for (;;) {
    // The monitor's process group includes the process that it forks for the user, before that one enters the jail. A
    // signal to a group misses no child that is being forked (fork(2) starts over), and the processes left in the jail
    // do not fork.
    const monitors = liveSessions(paths, username).map(({ pid }) => pid);
    for (const pid of monitors) kill(-pid);
    const jailed = (await jailedProcesses(paths)).filter((process) => process.username === username);
    for (const { pid } of jailed) kill(pid);
    const left = [...monitors, ...jailed.map(({ pid }) => pid)];
    if (left.length === 0 || performance.now() > deadline) {
      forgetSessions(paths, username);
      return left;
    }
    await wait(2);
  }
}

/** The sessions as the rules see them, under names that stay unique even when a PID is reused. */
export function liveSessionsOf(paths: Paths): LiveSessions {
  return {
    usernames: () => names(paths.sessions),
    of: (username) => liveSessions(paths, username).map((session) => ({ ...session, name: nameOf(session) })),
    end: (username, name) => endSession(paths, username, name),
  };
}

function nameOf({ pid, startTime }: Session): string {
  return `${pid}-${startTime}`;
}

/**
 * Ends only one session of a user: its monitor, and the process that serves it in the jail, which has its own process
 * group. Does nothing if the session has ended.
 */
async function endSession(paths: Paths, username: string, name: string): Promise<void> {
  const session = liveSessions(paths, username).find((each) => nameOf(each) === name);
  if (!session) return;
  const belongsToSession = ({ pid }: { readonly pid: number }): boolean => ancestorsOf(pid).includes(session.pid);
  const jailed = (await jailedProcesses(paths)).filter(belongsToSession);
  const started = jailed.map(({ pid }) => ({ pid, startTime: startTimeOf(pid) }));
  const deadline = performance.now() + KILL_TIMEOUT_MS;
  while (startTimeOf(session.pid) === session.startTime && performance.now() < deadline) {
    kill(-session.pid);
    for (const { pid, startTime } of started) if (startTimeOf(pid) === startTime) kill(pid);
    await wait(2);
  }
}

/** Ends one session that has no monitor. */
export function endUnwatched({ pid, startTime }: Session): void {
  if (startTimeOf(pid) === startTime) kill(pid);
}

function forgetSessions(paths: Paths, username: string): void {
  removeFile(join(paths.offeredKeys, username));
  const folder = join(paths.sessions, username);
  for (const name of names(folder)) removeFile(join(folder, name));
  try {
    rmdirSync(folder);
  } catch (error) {
    // If the folder is not empty, a login that is being refused has just written its file, and removes it itself.
    if (!['ENOENT', 'ENOTEMPTY'].includes(errorCode(error) ?? '')) throw error;
  }
}

/** When a process started, in clock ticks since boot (proc_pid_stat(5), field 22); undefined when it has ended. */
function startTimeOf(pid: number): string | undefined {
  const fields = statOf(pid);
  return fields?.[0] === 'Z' ? undefined : fields?.[19];
}

/** The fields of proc_pid_stat(5) from the third on. */
function statOf(pid: number): string[] | undefined {
  const stat = readOrNull(`/proc/${pid}/stat`);
  // The second field is the program's name in brackets, and may contain spaces and brackets.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (errorCode(error) !== 'ESRCH') throw error;
  }
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  }
}

function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes(errorCode(error) ?? '')) return null;
    throw error;
  }
}

interface JailedProcess {
  readonly pid: number;
  readonly username: string;
}

/**
 * All processes in the jails of this berth, found by the root directory that the kernel shows for each (proc_pid_root(5)). So it does
 * not matter whether their sshd monitor is still alive, or whether another service on this machine uses the same UID.
 */
async function jailedProcesses(paths: Pick<Paths, 'jail'>): Promise<JailedProcess[]> {
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
