/**
 * Live sessions, as `openssh/admit` registers them: one file per connection, named by the PID of the sshd process that
 * watches over it (its monitor), holding that process's start time and the client's address. The file of a process
 * that has gone counts for nothing; the next login removes it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Micros } from '../clock.ts';
import { errorCode } from '../errors.ts';
import { removeFile } from './files.ts';
import { isUsername, type Paths } from './paths.ts';

export interface Session {
  readonly username: string;
  /** The monitor. */
  readonly pid: number;
  readonly startTime: string;
  /** The client's address as sshd saw it. */
  readonly address: string;
  /** When it logged in. */
  readonly since: Micros;
}

/** How long killed processes may take to go, in ms, before we stop waiting for them. */
const GONE_WITHIN = 5000;

/** The live sessions of one user. */
export function liveSessions(paths: Pick<Paths, 'sessions'>, username: string): Session[] {
  const folder = join(paths.sessions, username);
  return names(folder).flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    const file = join(folder, name);
    const [startTime = '', address = ''] = (readOrNull(file) ?? '').trim().split(' ');
    const pid = Number(name);
    if (startTime === '' || startTimeOf(pid) !== startTime) return [];
    const since = Math.floor((statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) * 1000);
    return [{ username, pid, startTime, address, since }];
  });
}

/** All live sessions, oldest first. */
export function allSessions(paths: Pick<Paths, 'sessions'>): Session[] {
  const users = names(paths.sessions).filter(isUsername);
  return users.flatMap((username) => liveSessions(paths, username)).toSorted((a, b) => a.since - b.since);
}

/**
 * The client's address of the session that a process serves, a grandchild of its monitor. Undefined when it serves
 * none that was registered here: another instance of berth may have given out the same UID.
 */
export function addressOf(paths: Pick<Paths, 'sessions'>, username: string, pid: number): string | undefined {
  const sessions = liveSessions(paths, username);
  let ancestor = pid;
  for (let generation = 0; generation < 4 && ancestor > 1; generation += 1) {
    const session = sessions.find((live) => live.pid === ancestor);
    if (session) return session.address;
    ancestor = Number(statOf(ancestor)?.[1] ?? 0);
  }
  return undefined;
}

/**
 * Ends every session of a user, and everything else that runs as its UID; they are gone when this returns. The user's
 * limit file must be gone already, so that no further login registers.
 */
export async function endSessions(paths: Paths, username: string, uid: number): Promise<void> {
  const sessions = liveSessions(paths, username);
  if (sessions.length > 0) {
    const doomed = sessions.flatMap(({ pid }) => [pid, ...stopAndListChildren(pid)]);
    for (const pid of doomed) kill(pid, 'SIGKILL');
    const deadline = performance.now() + GONE_WITHIN;
    await killAllOf(uid, deadline);
    const isLeft = (): boolean => sessions.some(({ pid, startTime }) => startTimeOf(pid) === startTime);
    while (isLeft() && performance.now() < deadline) await wait(2);
  }
  forgetSessions(paths, username);
}

/**
 * A monitor forks the process that becomes the user's. Between the two steps that child is root's still, and would survive
 * `kill -1` as the user: so the monitor is stopped first, and the children that it has by then go with it.
 */
function stopAndListChildren(pid: number): number[] {
  kill(pid, 'SIGSTOP');
  return (readOrNull(`/proc/${pid}/task/${pid}/children`) ?? '').split(' ').filter(Boolean).map(Number);
}

/**
 * Kills all processes of a UID: round after round, until there is none. They run sshd's own code, which forks nothing, and
 * are stopped before they are killed, so that a child that one forks all the same is met by the next round. Needs no more
 * than CAP_KILL.
 */
async function killAllOf(uid: number, deadline: number): Promise<void> {
  while ((await signalAllOf(uid, 'STOP')) && performance.now() < deadline) {
    await signalAllOf(uid, 'KILL');
    await wait(2);
  }
}

/** False when no process has that UID (pkill(1), exit status 1). */
async function signalAllOf(uid: number, signal: 'STOP' | 'KILL'): Promise<boolean> {
  const pkill = spawn('pkill', [`--signal=${signal}`, `--uid=${uid}`], { stdio: 'ignore' });
  const [status] = await once(pkill, 'exit');
  return status === 0;
}

function forgetSessions(paths: Paths, username: string): void {
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

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
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
