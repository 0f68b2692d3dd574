/** `scripts/test --long`: tests that repeat something run more rounds, and those that take minutes run at all. */
const isLong = process.env['BERTH_TEST_LONG'] === '1';

/** How often a test repeats something: many times in a long run. */
export function rounds(usually: number, long: number): number {
  return isLong ? long : usually;
}

/** Options of a test that only a long run has. */
export const longOnly = { skip: !isLong && 'only in scripts/test --long' } as const;
