/** fast-check, which makes up the same values for the same `SEED`. */
// oxlint-disable-next-line no-restricted-imports -- elsewhere it would have a seed of its own
import fc from 'fast-check';
import { SEED } from './seed.ts';

fc.configureGlobal({ seed: SEED });

export { fc };
