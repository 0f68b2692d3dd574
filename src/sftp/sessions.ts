/**
 * Live sessions, as `openssh/admit` registers them: one file per connection, named by the PID of the sshd process that
 * watches over it (its monitor), holding that process's start time and the client's address. The file of a process
 * that has gone counts for nothing; a later login removes it. What a monitor that was killed leaves in its jail is a session
 * too, until it is ended.
 */
import { readdirSync, readFileSync, rmdirSync, statSync } from 'node:fs';
import { uptime } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Micros } from '../clock.ts';
import type { LiveSessions } from '../directories/end-session.ts';
import { errorCode } from '../errors.ts';
import { removeFile } from './files.ts';
import { jailedProcesses } from './jailed-processes.ts';
import { isUsername } from '../directories/host.ts';
import type { Paths } from './paths.ts';

export interface Session {
  readonly username: string;
  /** The monitor, or what it left behind. */
  readonly pid: number;
  readonly startTime: string;
  /** The client's address as sshd saw it; empty when no monitor is left to say it. */
  readonly address: string;
  /** When it logged in. */
  readonly since: Micros;
}

/** How long killed processes may take to go, in ms, before we stop waiting for them. */
const GONE_WITHIN = 5000;

/** The live sessions of one user that have their monitor. */
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
 * Sessions without a monitor: processes in a jail whose parent is neither in a jail nor of sshd. Whether it is registered says
 * nothing here: nobody's sessions end because `BERTH_RUNTIME_DIR` was changed.
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
 * The client's address of the session that a process serves, a grandchild of its monitor. Undefined when it serves
 * none that was registered here: another instance of berth may have given out the same UID.
 */
export function addressOf(paths: Pick<Paths, 'sessions'>, username: string, pid: number): string | undefined {
  for (const ancestor of ancestorsOf(pid)) {
    const session = registered(paths, username, ancestor);
    if (session) return session.address;
  }
  return undefined;
}

/** A process and those above it, as far as from one in a jail to its monitor. */
function ancestorsOf(pid: number): number[] {
  const found: number[] = [];
  for (let each = pid; found.length < 4 && each > 1; each = Number(statOf(each)?.[1] ?? 0)) found.push(each);
  return found;
}

/** The live session whose monitor is that process. Never init: it has a group of everybody (kill(2), -1). */
function registered(paths: Pick<Paths, 'sessions'>, username: string, pid: number): Session | undefined {
  if (pid <= 1) return undefined;
  const file = join(paths.sessions, username, String(pid));
  const [startTime = '', address = ''] = (readOrNull(file) ?? '').trim().split(' ');
  if (startTime === '' || startTimeOf(pid) !== startTime) return undefined;
  const since = Math.floor((statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) * 1000);
  return { username, pid, startTime, address, since };
}

/**
 * Ends every session of a user: kills its monitors and all that is in its jail, again and again until there is none. The
 * user's limit file must be gone already, so that no further login registers.
 * @returns what the kernel still held on to after some seconds; it goes as soon as its system call returns.
 */
export async function endSessions(paths: Paths, username: string): Promise<readonly number[]> {
  const deadline = performance.now() + GONE_WITHIN;
  for (;;) {
    // A monitor leads a process group, with the process that it forks for the user before that one is in the jail. A signal
    // to a group misses no child that is being forked (fork(2) starts over), and what is left in the jail forks nothing.
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

/** For the rules: the sessions by names that tell each from every other, also when its process's number is used again. */
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
 * Ends one session of a user and no other: its monitor, and what serves it in the jail, which is a process group of its own.
 * Does nothing when it has ended.
 */
async function endSession(paths: Paths, username: string, name: string): Promise<void> {
  const session = liveSessions(paths, username).find((each) => nameOf(each) === name);
  if (!session) return;
  const isIts = ({ pid }: { readonly pid: number }): boolean => ancestorsOf(pid).includes(session.pid);
  const jailed = (await jailedProcesses(paths)).filter(isIts);
  const started = jailed.map(({ pid }) => ({ pid, startTime: startTimeOf(pid) }));
  const deadline = performance.now() + GONE_WITHIN;
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
    // Not empty: a login that is being refused wrote its file just now, and takes it away itself.
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
  // The second field is the program's name in brackets, and may hold spaces and brackets itself.
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
