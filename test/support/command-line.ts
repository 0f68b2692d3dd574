/** The `berth` command as an operator runs it. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
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
