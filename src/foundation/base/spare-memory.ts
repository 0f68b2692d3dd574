/**
 * Gives memory back to the machine after a busy time. V8 lets its heap grow during a burst and returns nothing while a process is
 * idle: berth would keep for hours what a minute of uploads has needed.
 *
 * A collection stops the process for a tenth of a second or so, so it waits for an idle moment, and happens once after each burst.
 * Without `--expose-gc` (`scripts/lib/run`) there is none.
 */
import { performance } from 'node:perf_hooks';
import type { Background, Loop } from './background.ts';

const MIB = 2 ** 20;
/** The growth of the heap that is worth a collection, in bytes. */
const WORTHWHILE = 16 * MIB;
/** A larger heap is left alone, in bytes: its collection would take longer than requests should wait. */
const LARGEST = 160 * MIB;
/** The longest share of time that the event loop may have been busy since the last look. */
const IDLE = 0.05;
const EVERY_MS = 5000;

/** @param every the time between two looks at the heap, in ms. */
export function startSpareMemory(background: Background, every = EVERY_MS): Loop {
  let kept = process.memoryUsage().heapTotal;
  let last = performance.eventLoopUtilization();
  return background.start('spare-memory', { every }, async () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, last);
    last = now;
    const { heapTotal } = process.memoryUsage();
    kept = Math.min(kept, heapTotal);
    if (utilization > IDLE || heapTotal > LARGEST || heapTotal - kept < WORTHWHILE) return;
    // Other collections keep the pages of the heap for later.
    globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
    kept = process.memoryUsage().heapTotal;
  });
}
