/**
 * `scripts/test --long` has the machine to itself and takes its time. It repeats more, and it alone asserts bounds on time: other runs
 * share the machine, so they compare times within one run.
 */
import assert from 'node:assert/strict';

export const isLong = process.env['BERTH_TEST_LONG'] === '1';

/** How often a test repeats something, or how many it makes. */
export function rounds(usually: number, long: number): number {
  return isLong ? long : usually;
}

/** Options of a test that only a long run has. */
export const longOnly = { skip: !isLong && 'only in scripts/test --long' } as const;

/** Asserts in a long run that what was measured, such as milliseconds or MiB, is within its bound. */
export function assertWithin(bound: number, measured: number, what: string): void {
  if (isLong) assert.ok(measured <= bound, `${what}: ${measured}, at most ${bound}`);
}
