/** Runs the programs that checks need, and finds the running `berth serve`. */
import { execFile } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Config } from '../../foundation/base/config.ts';
import { pathsOf } from '../../machine/sftp/paths.ts';

/** How long a program may take. */
const TIMEOUT_MS = 20_000;

const IN_NAMESPACE = fileURLToPath(new URL('../../../openssh/in-namespace', import.meta.url));

export interface Outcome {
  /** The exit status; undefined when the program could not be started or was killed. */
  readonly status: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  readonly input?: string;
}

/** Runs a program to its end. Never throws. */
export async function command(
  program: string,
  args: readonly string[],
  { env = {}, cwd, input = '' }: CommandOptions = {},
): Promise<Outcome> {
  const settings = { timeout: TIMEOUT_MS, env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', ...env }, cwd };
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const child = execFile(program, [...args], settings, (error, stdout, stderr) => {
    const status = error === null ? 0 : typeof error.code === 'number' ? error.code : undefined;
    resolve({ status, stdout, stderr });
  });
  // Ignores the error of writing to a program that has ended without reading.
  child.stdin?.on('error', () => undefined).end(input);
  return promise;
}

/** Runs a program with berth's own /etc and /run, as our sshd sees them. */
export function inNamespace(config: Config, program: string, ...args: string[]): Promise<Outcome> {
  return command('sh', [IN_NAMESPACE, pathsOf(config).sshd, program, ...args]);
}

/** The process id of `berth serve`, which holds the lock in the state folder (proc_locks(5)); undefined when none runs. */
export function serveProcess({ stateDir }: Pick<Config, 'stateDir'>): number | undefined {
  const lock = statSync(join(stateDir, 'serve.lock'), { throwIfNoEntry: false });
  if (!lock) return undefined;
  for (const line of readFileSync('/proc/locks', 'utf8').split('\n')) {
    const [, pid, inode] = / WRITE (\d+) [\da-f]+:[\da-f]+:(\d+) /.exec(line) ?? [];
    // The PID is 0 or less for a process of another PID namespace.
    if (Number(inode) === lock.ino && Number(pid) > 0) return Number(pid);
  }
  return undefined;
}
