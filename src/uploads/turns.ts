/** For loops over what a user makes as long as they like: lets requests in between. */
import { setImmediate } from 'node:timers/promises';

/** How long a loop may hold the event loop, in ms. */
const TURN = 5;

/**
 * A function to await after each step: it yields to the event loop when the steps since the last time took 5 ms, however
 * many they were.
 */
export function turns(): () => Promise<void> {
  let began = performance.now();
  return async () => {
    if (performance.now() - began < TURN) return;
    await setImmediate();
    began = performance.now();
  };
}
