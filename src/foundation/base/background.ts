/**
 * Runs the service's background work, each task as a loop with a name. A task that fails is logged and retried after growing waits,
 * and never ends the process. One that keeps failing shows in `/healthz` and the metrics.
 */
import timers from 'node:timers/promises';
import { errorMessage, isUnavailable } from './errors.ts';
import type { Log } from './log.ts';

/** The wait after the first failure, doubled after each further one. */
const FIRST_RETRY_MS = 1000;
const LONGEST_RETRY_MS = 300_000;

/** The wait while the database is unavailable, which does not count as a failure. */
const BUSY_RETRY_MS = 5000;

/** A task counts as failing after this many failures in a row. */
const KEEPS_FAILING = 3;

export interface Loop {
  /** Runs the task now, or again if it is running. Resolves after that run, even if it fails. */
  run(): Promise<void>;
  /** Ends the loop: aborts the running task's signal, and waits for it. */
  close(): Promise<void>;
}

export interface LoopOptions {
  /** The wait from the end of one run to the next, in ms. A task may return another wait. */
  readonly every: number;
  /** Whether the first run is at once, or after the first wait (the default). */
  readonly atOnce?: boolean;
}

export type Task = (signal: AbortSignal) => Promise<number | void>;

export interface Background {
  start(name: string, options: LoopOptions, task: Task): Loop;
  /** The names of the tasks that have failed three times in a row. */
  failing(): string[];
  /** The number of failures so far, by name. */
  failures(): ReadonlyMap<string, number>;
}

export function createBackground(log: Log): Background {
  const failures = new Map<string, number>();
  const inARow = new Map<string, number>();

  function start(name: string, { every, atOnce = false }: LoopOptions, task: Task): Loop {
    const stop = new AbortController();
    let wake = new AbortController();
    let waiters: (() => void)[] = [];
    failures.set(name, 0);

    async function attempt(): Promise<number> {
      try {
        const wait = await task(stop.signal);
        inARow.delete(name);
        return wait ?? every;
      } catch (error) {
        if (stop.signal.aborted) return 0;
        if (isUnavailable(error)) {
          log.warn({ task: name, reason: errorMessage(error) }, `${name} waits for the database`);
          return Math.min(every, BUSY_RETRY_MS);
        }
        const count = (inARow.get(name) ?? 0) + 1;
        inARow.set(name, count);
        failures.set(name, (failures.get(name) ?? 0) + 1);
        log.error({ err: error, task: name }, `${name} failed and will be retried`);
        return Math.min(FIRST_RETRY_MS * 2 ** (count - 1), LONGEST_RETRY_MS);
      }
    }

    async function loop(): Promise<void> {
      let wait = atOnce ? 0 : every;
      while (!stop.signal.aborted) {
        const signal = AbortSignal.any([wake.signal, stop.signal]);
        if (wait > 0) await timers.setTimeout(wait, undefined, { signal, ref: false }).catch(() => undefined);
        if (stop.signal.aborted) break;
        wake = new AbortController();
        const served = waiters;
        waiters = [];
        wait = await attempt();
        for (const resolve of served) resolve();
      }
      for (const resolve of waiters) resolve();
    }

    const running = loop();
    return {
      run: () =>
        new Promise((resolve) => {
          if (stop.signal.aborted) return resolve();
          waiters.push(resolve);
          wake.abort();
        }),
      async close() {
        stop.abort();
        inARow.delete(name);
        await running;
      },
    };
  }

  return {
    start,
    failing: () => [...inARow].filter(([, count]) => count >= KEEPS_FAILING).map(([name]) => name),
    failures: () => failures,
  };
}
