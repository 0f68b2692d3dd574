/**
 * Requests per account and clock minute (specification, "Limits"), counted in memory. Only authenticated requests get
 * here and the table starts over each minute, so it holds no more than the accounts that called within one.
 */
import { type Clock, SECOND } from '../clock.ts';
import { BerthError } from '../errors.ts';

export interface RateLimit {
  /** Counts a request. @throws {BerthError} `rate_limited` when it is one too many. */
  take(accountId: string): void;
}

export function createRateLimit({ limit, clock }: { limit: number; clock: Clock }): RateLimit {
  const taken = new Map<string, number>();
  let minute = Number.NaN;
  return {
    take(accountId) {
      const current = Math.floor(clock.now() / (60 * SECOND));
      // Any other minute, an earlier one too: a clock that was set back must not lock anybody out.
      if (current !== minute) {
        taken.clear();
        minute = current;
      }
      const count = (taken.get(accountId) ?? 0) + 1;
      if (count > limit) throw new BerthError('rate_limited', 'Rate limit exceeded');
      taken.set(accountId, count);
    },
  };
}
