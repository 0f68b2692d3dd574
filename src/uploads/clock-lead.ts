/**
 * How far the wall clock was set forward lately, by comparison with a clock that nobody sets. What is to be removed by age
 * waits for as long: the files were not kept for the time that was skipped. A clock that stays where it was set for a day
 * is believed; what happened before the process began is not known.
 */
import { type Clock, DAY, type Micros, SECOND } from '../clock.ts';

/** Less than this between two looks is drift, which the system corrects bit by bit. */
const TOLERANCE: Micros = 10 * SECOND;

/** How long a lead is remembered. */
const MEMORY: Micros = DAY;

export interface ClockLead {
  /** By how much the wall clock is ahead of where it would be had nobody set it, in µs; 0 when it is not. */
  now(): Micros;
}

/** @param monotonic a clock in ms that nobody sets, such as `performance.now`. */
export function createClockLead(clock: Clock, monotonic: () => number): ClockLead {
  const steadyNow = (): Micros => monotonic() * 1000;
  let offset = clock.now() - steadyNow();
  let lead = 0;
  let since = steadyNow();
  return {
    now() {
      const steady = steadyNow();
      const current = clock.now() - steady;
      if (Math.abs(current - offset) > TOLERANCE) {
        lead += current - offset;
        since = steady;
      } else if (steady - since > MEMORY) {
        lead = 0;
      }
      offset = current;
      return Math.max(0, lead);
    },
  };
}
