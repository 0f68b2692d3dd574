/** `--follow`: looks again and again until it is told to stop. */
import { setTimeout } from 'node:timers/promises';

/** Between looks, in ms. */
const PAUSE = 500;

/** Resolves when the command is to end, on SIGINT say. */
export type Stopped = () => Promise<unknown>;

export async function follow(stopped: Stopped, look: () => Promise<void>): Promise<void> {
  const stop = new AbortController();
  void stopped().then(() => stop.abort());
  while (!stop.signal.aborted) {
    await look();
    await setTimeout(PAUSE, undefined, { signal: stop.signal }).catch(() => undefined);
  }
}
