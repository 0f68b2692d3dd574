/** `berth serve` as a process of its own, to be killed: what a supervisor does, step by step. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Config } from '../../src/foundation/base/config.ts';
import { apiClient, type ApiClient } from './api-client.ts';
import { copyCertificate } from './made-certificate.ts';
import { nodeEnvironment } from './node-environment.ts';
import { until } from './poll.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

export interface ServeProcess extends AsyncDisposable {
  readonly pid: number;
  readonly process: ChildProcess;
  /** What it has written so far: to standard error, since a service has nothing to say on standard output. */
  output(): string;
  hasEnded(): boolean;
  /** Sends the signal and waits for the end. Returns the exit status, null when the signal ended it. */
  kill(signal?: NodeJS.Signals): Promise<number | null>;
}

export interface SpawnOptions {
  /** What runs it, with arguments: `prlimit`, say. It has to become the process. */
  readonly by?: readonly string[];
  /** A descriptor that takes its standard error. */
  readonly stderr?: number;
}

/** Starts it; returns once it answers on its port, which has to be a fixed one. Leaves nothing behind when it does not. */
export async function startServe(
  config: Config,
  environment: Record<string, string>,
  options: SpawnOptions = {},
): Promise<ServeProcess> {
  copyCertificate(config.tls);
  const serve = spawnServe(environment, options);
  try {
    await until('berth serve answers', async () => {
      if (serve.hasEnded()) throw new Error(`berth serve has ended: ${serve.output()}`);
      return isHealthy(config);
    });
  } catch (error) {
    await serve[Symbol.asyncDispose]();
    throw error;
  }
  return serve;
}

/** The same without waiting for an answer. */
export function spawnServe(environment: Record<string, string>, { by = [], stderr }: SpawnOptions = {}): ServeProcess {
  const [command, ...args] = [...by, process.execPath, MAIN, 'serve'];
  const child = spawn(command, args, {
    env: { ...nodeEnvironment, ...coverage(), ...environment },
    stdio: ['ignore', 'pipe', stderr ?? 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => (output += text));
  }
  const ended = once(child, 'exit');
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  return {
    pid: child.pid ?? 0,
    process: child,
    output: () => output,
    hasEnded,
    async kill(signal = 'SIGKILL') {
      child.kill(signal);
      await ended;
      return child.exitCode;
    },
    async [Symbol.asyncDispose]() {
      if (!hasEnded()) child.kill('SIGKILL');
      await ended;
    },
  };
}

/** A client of the API that such a process serves. */
export function clientOf(config: Config, key: string): ApiClient {
  return apiClient({ ...config.api, ca: readFileSync(config.tls.cert), key });
}

async function isHealthy(config: Config): Promise<boolean> {
  try {
    using client = clientOf(config, '');
    return (await client.send('GET', '//healthz')).status === 200;
  } catch {
    return false; // no certificate or no listener yet
  }
}

/** Lets node's test runner count what runs in the child. */
function coverage(): Record<string, string> {
  const folder = process.env['NODE_V8_COVERAGE'];
  return folder === undefined ? {} : { NODE_V8_COVERAGE: folder };
}
