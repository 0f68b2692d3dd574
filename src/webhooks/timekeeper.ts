/** Notices when somebody sets the wall clock, by comparing it with one that nobody sets. */
import type { Clock, Micros } from '../clock.ts';

/** Less than this is drift, which the system corrects bit by bit, in µs. */
const TOLERANCE: Micros = 1_000_000;

export interface Timekeeper {
  /** By how much the wall clock was moved since the last call, in µs; 0 when it was not. */
  jump(): Micros;
}

/** @param monotonic a clock in ms that nobody sets, such as `performance.now`. */
export function createTimekeeper(clock: Clock, monotonic: () => number): Timekeeper {
  let wall = clock.now();
  let steady = monotonic();
  return {
    jump() {
      const expected = wall + (monotonic() - steady) * 1000;
      wall = clock.now();
      steady = monotonic();
      return Math.abs(wall - expected) > TOLERANCE ? Math.round(wall - expected) : 0;
    },
  };
}
