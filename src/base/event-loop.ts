/** For loops over what a user makes as long as they like: lets requests in between. */
import { setImmediate } from 'node:timers/promises';

/** How long a loop may hold the event loop. */
const SLICE_MS = 5;

/**
 * A function to await after each step: it yields to the event loop when the steps since the last time took 5 ms, however
 * many they were. Until then it returns nothing to wait for.
 */
export function yielder(): () => Promise<void> | undefined {
  let began = performance.now();
  async function yieldNow(): Promise<void> {
    await setImmediate();
    began = performance.now();
  }
  return () => (performance.now() - began < SLICE_MS ? undefined : yieldNow());
}
