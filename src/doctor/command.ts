/** Runs a program for a check: with an end, and with its output as text whatever becomes of it. */
import { execFile } from 'node:child_process';
import { errorCode } from '../errors.ts';

/** How long a program may take, in ms. */
const PATIENCE = 20_000;

export interface Outcome {
  /** The exit status; undefined when it could not be started or was ended. */
  readonly status: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
  /** There is no such program. */
  readonly missing: boolean;
}

export interface CommandOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  readonly input?: string;
}

export async function command(
  program: string,
  args: readonly string[],
  { env = {}, cwd, input = '' }: CommandOptions = {},
): Promise<Outcome> {
  const settings = { timeout: PATIENCE, env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', ...env }, cwd };
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const child = execFile(program, [...args], settings, (error, stdout, stderr) => {
    const status = error === null ? 0 : typeof error.code === 'number' ? error.code : undefined;
    resolve({ status, stdout, stderr, missing: errorCode(error) === 'ENOENT' });
  });
  // A program that reads nothing may have ended by now.
  child.stdin?.on('error', () => undefined).end(input);
  return promise;
}
