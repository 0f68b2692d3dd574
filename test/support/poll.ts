/** Waits until something is so, looking every few milliseconds. Rejects after `seconds`, naming what was waited for. */
import { setTimeout as wait } from 'node:timers/promises';

/** In s. Only a test that fails waits so long: a busy machine is no reason to fail. */
export const PATIENCE = 60;

export async function until(what: string, isSo: () => boolean | Promise<boolean>, seconds = PATIENCE): Promise<void> {
  const deadline = performance.now() + seconds * 1000;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`still not so after ${seconds} s: ${what}`);
    await wait(10);
  }
}
