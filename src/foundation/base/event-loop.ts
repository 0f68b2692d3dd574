/** Lets requests run between the steps of a loop whose length a user decides. */
import { setImmediate } from 'node:timers/promises';

/**
 * How long a loop may hold the event loop. Others wait for such slices at several places, one after the other. Counted in steps, a
 * slice would last longer the slower the machine is.
 */
export const SLICE_MS = 5;

/**
 * Returns a function to await after each step. It yields to the event loop once the steps since the last time have taken 5 ms; until
 * then it returns nothing to wait for.
 */
export function yielder(): () => Promise<void> | undefined {
  let began = performance.now();
  async function yieldNow(): Promise<void> {
    await setImmediate();
    began = performance.now();
  }
  return () => (performance.now() - began < SLICE_MS ? undefined : yieldNow());
}
