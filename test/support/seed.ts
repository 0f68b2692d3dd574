/**
 * The seed of all that tests make up. It is the same in each run, so that a change fails only where it is wrong. `scripts/test --long` takes a new
 * one and names it (`test/run.ts`); `SEED=…` takes that one.
 */
export const SEED = Number(process.env['SEED'] ?? 1);
