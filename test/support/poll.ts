/**
 * Waits until a condition holds. Checks every 10 ms at first and every 100 ms after a second, since a check may be a
 * request. Rejects after `seconds`, naming the condition.
 */
import { setTimeout as wait } from 'node:timers/promises';

/** In s. Only a test that fails waits so long: a busy machine is no reason to fail. */
export const TIMEOUT_SECONDS = 60;

export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  seconds = TIMEOUT_SECONDS,
): Promise<void> {
  const began = performance.now();
  while (!(await isSo())) {
    const waited = performance.now() - began;
    if (waited > seconds * 1000) throw new Error(`still not so after ${seconds} s: ${what}`);
    await wait(Math.min(Math.max(waited / 10, 10), 100));
  }
}
