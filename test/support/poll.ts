/** Waits until something is so, looking every few milliseconds. Rejects after `seconds`, naming what was waited for. */
import { setTimeout as wait } from 'node:timers/promises';

export async function until(what: string, isSo: () => boolean | Promise<boolean>, seconds = 30): Promise<void> {
  const deadline = performance.now() + seconds * 1000;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`still not so after ${seconds} s: ${what}`);
    await wait(10);
  }
}
