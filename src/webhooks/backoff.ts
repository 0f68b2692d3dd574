/** How long a failed delivery waits (specification: "exponential backoff"; docs/design.md, 9: 10 s, 60 s, 5 min, ±20 %). */
import { type Micros, SECOND } from '../clock.ts';

/** Attempts in all (specification, "Limits"). */
export const MAX_ATTEMPTS = 4;

const JITTER = 0.2;

/** Waits before the second, third and fourth attempt, in seconds. */
export type RetryDelays = readonly [number, number, number];

/**
 * The wait after attempt `number` (1 to 3) has failed, in µs; undefined after the last. `random` is in [0, 1): it
 * spreads the retries of many deliveries that failed together.
 */
export function waitAfter(number: number, delays: RetryDelays, random: number): Micros | undefined {
  const seconds = delays[number - 1];
  return seconds === undefined ? undefined : Math.round(seconds * SECOND * (1 - JITTER + 2 * JITTER * random));
}

/** The longest wait that `waitAfter` can give, in µs. */
export function longestWait(delays: RetryDelays): Micros {
  return Math.ceil(Math.max(...delays) * SECOND * (1 + JITTER));
}
