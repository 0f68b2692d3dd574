/**
 * How long webhooks for a healthy receiver take beside a crowd of dead ones, and alone. Two processes take short turns;
 * the one whose turn it is not stands still, so that both meet the same machine and neither disturbs the other.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { deadEndpoints } from './dead-endpoints.ts';

const DISPATCHING = fileURLToPath(new URL('./dispatching-child.ts', import.meta.url));

export interface Comparison {
  /** Latencies in ms, by turn. */
  readonly alone: readonly number[][];
  readonly crowded: readonly number[][];
}

export async function compare({
  endpoints,
  queued,
  turns,
  webhooks,
}: {
  /** Dead receivers. */
  endpoints: number;
  /** Webhooks queued for them in all. */
  queued: number;
  turns: number;
  /** For the healthy receiver, per turn. */
  webhooks: number;
}): Promise<Comparison> {
  await using dead = await deadEndpoints(endpoints);
  await using quiet = await start({ dead: [], each: 0 });
  quiet.process.kill('SIGSTOP');
  await using busy = await start({ dead: dead.urls, each: queued / endpoints });
  busy.process.kill('SIGSTOP');
  const turn = async ({ process: child }: Dispatching): Promise<number[]> => {
    child.kill('SIGCONT');
    child.send(webhooks);
    const [latencies] = (await once(child, 'message')) as [number[]];
    child.kill('SIGSTOP');
    return latencies;
  };
  const alone: number[][] = [];
  const crowded: number[][] = [];
  for (let i = 0; i < turns; i += 1) {
    alone.push(await turn(quiet));
    crowded.push(await turn(busy));
  }
  return { alone, crowded };
}

interface Dispatching extends AsyncDisposable {
  readonly process: ChildProcess;
}

async function start(crowd: { dead: readonly string[]; each: number }): Promise<Dispatching> {
  const child = fork(DISPATCHING, [JSON.stringify(crowd)], { stdio: 'inherit' });
  await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(() => Promise.reject(new Error('the dispatching process ended'))),
  ]);
  return {
    process: child,
    async [Symbol.asyncDispose]() {
      child.kill('SIGCONT');
      child.disconnect();
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    },
  };
}
