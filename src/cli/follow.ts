/** `--follow`: looks again and again until it is told to stop. */
import { setTimeout } from 'node:timers/promises';

/** Between looks, in ms. */
const PAUSE = 500;

/** Listens for the command's end, on SIGINT say: to be called before the first line is out. */
export type Stopped = () => Promise<unknown>;

export async function follow(stopped: Promise<unknown>, look: () => Promise<void>): Promise<void> {
  const stop = new AbortController();
  void stopped.then(() => stop.abort());
  while (!stop.signal.aborted) {
    await look();
    await setTimeout(PAUSE, undefined, { signal: stop.signal }).catch(() => undefined);
  }
}
