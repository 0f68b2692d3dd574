/** Removes much, a bounded batch at a time, so that nobody waits long. */
import { setTimeout } from 'node:timers/promises';

/** Rows in one transaction: a few ms. */
export const BATCH = 500;
/** Between batches, in ms: other writers come first. */
const PAUSE = 20;

/** Runs `batch` until it removes less than it could. Returns how many rows went. */
export async function inBatches(batch: () => Promise<number>, signal: AbortSignal): Promise<number> {
  let rows = 0;
  for (let removed = BATCH; removed === BATCH && !signal.aborted;) {
    removed = await batch();
    rows += removed;
    if (removed > 0) await setTimeout(PAUSE, undefined, { signal }).catch(() => undefined);
  }
  return rows;
}
