/**
 * Tries at something short enough to be guessed: the first wrong ones in a row cost nothing, then each makes the next
 * wait, twice as long every time, up to an hour. Kept in memory, which is bounded.
 */
import { LRUCache } from 'lru-cache';

const FREE = 5;
/** In ms. */
const FIRST_WAIT = 30_000;
const LONGEST_WAIT = 3_600_000;
/** Users who are remembered; beyond that, the one who tried longest ago is not. */
const MOST = 10_000;

export interface Tries {
  /** Counts one, unless it has to wait. @returns for how long, in ms. */
  begin(userId: string): number;
  /** It was right. */
  succeeded(userId: string): void;
}

/** @param clock a monotonic clock in ms, such as `performance.now`. */
export function createTries(clock: () => number): Tries {
  const known = new LRUCache<string, { readonly count: number; readonly until: number }>({ max: MOST });
  return {
    begin(userId) {
      const now = clock();
      const before = known.peek(userId) ?? { count: 0, until: 0 };
      if (now < before.until) return before.until - now;
      const count = before.count + 1;
      const wait = count < FREE ? 0 : Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (count - FREE));
      known.set(userId, { count, until: now + wait });
      return 0;
    },
    succeeded: (userId) => void known.delete(userId),
  };
}
