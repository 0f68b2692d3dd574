/** Notices when the wall clock is set, by comparing it with the monotonic one, from the start of the process on. */
import { type Clock, DAY, type Micros, SECOND } from './clock.ts';

/** Less than this is drift, which the system corrects bit by bit. */
const TOLERANCE: Micros = SECOND;

/** How long a lead is remembered: a clock that stays where it was set for a day is believed. */
const MEMORY: Micros = DAY;

/** A monotonic clock in ms, such as `performance.now`. */
export type Monotonic = () => number;

/** A function that says by how much the wall clock was set since its last call, in µs; 0 when it was not. */
export function stepMeter(clock: Clock, monotonic: Monotonic): () => Micros {
  const offsetNow = (): Micros => clock.now() - monotonic() * 1000;
  let offset = offsetNow();
  return () => {
    const before = offset;
    offset = offsetNow();
    return Math.abs(offset - before) > TOLERANCE ? Math.round(offset - before) : 0;
  };
}

/**
 * A function that says by how much the wall clock was set forward lately, in µs. What is to be removed by age waits for
 * as long: the files were not kept for the time that was skipped.
 */
export function leadMeter(clock: Clock, monotonic: Monotonic): () => Micros {
  const step = stepMeter(clock, monotonic);
  let lead = 0;
  let since = monotonic();
  return () => {
    const by = step();
    if (by !== 0) {
      lead += by;
      since = monotonic();
    } else if ((monotonic() - since) * 1000 > MEMORY) lead = 0;
    return Math.max(0, lead);
  };
}
