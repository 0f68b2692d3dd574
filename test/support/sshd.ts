/**
 * A real sshd for one test's berth, started as `scripts/start` starts it: prepared by `prepareSshd` (which has sshd check
 * its configuration), in the namespace of `openssh/in-namespace`. It listens on loopback only.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Config } from '../../src/foundation/base/config.ts';
import { ensureHostKeys } from '../../src/machine/sftp/host-keys.ts';
import { type Paths, pathsOf } from '../../src/machine/sftp/paths.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { prepareSshd } from '../../src/machine/sftp/sshd.ts';
import { freePort } from './free-port.ts';
import { namedPipe } from './named-pipe.ts';
import type { Scratch } from './scratch.ts';

const IN_NAMESPACE = fileURLToPath(new URL('../../openssh/in-namespace', import.meta.url));

export interface Sshd extends AsyncDisposable {
  /** The scratch's configuration with the port that sshd listens on. */
  readonly config: Config;
  readonly paths: Paths;
  readonly port: number;
  /** What sshd has written so far. */
  readonly output: () => string;
  /** Ends the listener as `scripts/start` does; sessions go on. */
  readonly stop: () => Promise<void>;
  /** Kills the listener and every session with SIGKILL. */
  readonly kill: () => Promise<void>;
}

/** An sshd that accepts connections. Stopping it ends its sessions too. */
export async function startSshd(place: Scratch, addresses?: readonly string[]): Promise<Sshd> {
  const port = await freePort();
  const config: Config = { ...place.config, sftp: { ...place.config.sftp, port } };
  const paths = pathsOf(config);
  await copyHostKeys(dirname(place.dir), paths.hostKeys);
  await prepareSshd(config, createLog('silent'));
  return runSshd(config, addresses);
}

/**
 * Starts sshd for what has been prepared, on the configuration's port.
 * @param by what runs it, with arguments. It has to become the process.
 */
export async function runSshd(
  config: Config,
  addresses: readonly string[] = ['127.0.0.1'],
  by: readonly string[] = [],
): Promise<Sshd> {
  const paths = pathsOf(config);
  const listen = addresses.flatMap((address) => ['-o', `ListenAddress=${address}`]);
  const program = ['/usr/sbin/sshd', '-D', '-e', '-f', join(paths.sshd, 'sshd_config'), ...listen];
  const [command = '', ...args] = [...by, 'sh', IN_NAMESPACE, paths.sshd, ...program];
  // In a process group of its own, so that the end of the test reaches what it forked before it ended.
  const { readEnd, writeEnd } = namedPipe();
  const sshd = spawn(command, args, { stdio: ['ignore', 'ignore', writeEnd] });
  closeSync(writeEnd);
  const lines: string[] = [];
  const ready = Promise.withResolvers<void>();
  createInterface(readEnd).on('line', (line) => {
    lines.push(line);
    if (line.startsWith(`Server listening on ${addresses[0]} `)) ready.resolve();
  });
  sshd.once('exit', () => ready.reject(new Error(`sshd ended: ${lines.join('; ')}`)));
  await ready.promise;
  const stop = async (): Promise<void> => {
    if (sshd.exitCode !== null || sshd.signalCode !== null) return;
    sshd.kill('SIGTERM');
    await once(sshd, 'exit');
  };
  return {
    config,
    paths,
    port: config.sftp.port,
    output: () => lines.join('\n'),
    stop,
    async kill() {
      const doomed = sshd.pid === undefined ? [] : descendants(sshd.pid);
      sshd.kill('SIGKILL');
      for (const pid of doomed) signal(pid, 'SIGKILL');
      endSessionsBelow(paths.sessions, 'SIGKILL');
      if (sshd.exitCode === null && sshd.signalCode === null) await once(sshd, 'exit');
    },
    async [Symbol.asyncDispose]() {
      await stop();
      endSessionsBelow(paths.sessions, 'SIGTERM');
    },
  };
}

function endSessionsBelow(sessions: string, how: NodeJS.Signals): void {
  if (!existsSync(sessions)) return;
  for (const user of readdirSync(sessions)) {
    for (const name of readdirSync(join(sessions, user))) {
      const pid = Number(name);
      // The number may be another process's by now: the file says when ours began.
      if (startTime(pid) !== readIfThere(join(sessions, user, name)).split(' ')[0]) continue;
      for (const doomed of [...descendants(pid), pid]) signal(doomed, how);
    }
  }
}

/** Children, their children, and so on. */
function descendants(pid: number): number[] {
  const children = readIfThere(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number);
  return children.flatMap((child) => [child, ...descendants(child)]);
}

/** Field 22 of proc_pid_stat(5), or undefined when there is no such process. */
function startTime(pid: number): string | undefined {
  const stat = readIfThere(`/proc/${pid}/stat`);
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
}

/** '' when the process has gone, or the file: either may happen between a check and a read. */
function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function signal(pid: number, how: NodeJS.Signals): void {
  try {
    process.kill(pid, how);
  } catch {
    // It has ended already.
  }
}

/** Host keys take a second of both cores, so the tests share a set. What makes them has a test of its own. */
export async function copyHostKeys(root: string, folder: string): Promise<void> {
  const shared = join(root, 'hostkeys');
  if (!existsSync(shared)) {
    const fresh = mkdtempSync(`${shared}-`);
    await ensureHostKeys(fresh);
    try {
      renameSync(fresh, shared);
    } catch {
      rmSync(fresh, { recursive: true }); // another test was first
    }
  }
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(shared)) copyFileSync(join(shared, name), join(folder, name));
}
