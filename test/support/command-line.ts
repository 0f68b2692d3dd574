/** The `berth` command as an operator runs it. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Invocation } from '../../src/cli/invocation.ts';
import { runProgram } from '../../src/cli/program.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { readConfig } from '../../src/foundation/base/config.ts';
import { nodeEnvironment } from './node-environment.ts';

const MAIN = new URL('../../src/main.ts', import.meta.url).pathname;

interface Outcome {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

type Environment = Readonly<Record<string, string>>;

/** Starts it, for commands that run until they are stopped. */
export function startCommand(
  environment: Environment,
  args: readonly string[],
): ChildProcessByStdio<null, Readable, Readable> {
  return spawn(process.execPath, [MAIN, ...args], {
    env: { ...nodeEnvironment, ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

export async function runCommand(environment: Environment, ...args: readonly string[]): Promise<Outcome> {
  const child = startCommand(environment, args);
  const [stdout, stderr, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number]>,
  ]);
  return { status, stdout, stderr };
}

/** Runs a command line in this process: a tenth of the cost, for what needs no signal, lock or terminal of its own. */
export async function runHere(environment: Environment, ...args: readonly string[]): Promise<Outcome> {
  const said = { stdout: '', stderr: '' };
  const { signal: stopped } = new AbortController();
  const invocation: Invocation = {
    environment,
    config: () => readConfig(environment),
    clock: systemClock(),
    stdout: (more) => void (said.stdout += more),
    stderr: (more) => void (said.stderr += more),
    print: (line) => void (said.stdout += `${line}\n`),
    stopped,
    catchSignals: () => stopped,
  };
  return { status: await runProgram(args, invocation), ...said };
}
