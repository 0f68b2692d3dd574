/**
 * Attempts under way, and what came of those that have ended, until that is recorded: a few together, since each commit
 * costs more than what it holds, but none for long.
 */
import type { Claimed } from './claim.ts';
import type { Finished } from './finish.ts';

/** How long attempts that have ended wait for others, to be recorded with one commit, in ms. */
export const GATHER_MS = 5;

export type Result = Finished & Pick<Claimed, 'destination'>;

export interface Results {
  /** So many attempts have begun. */
  begin(count: number): void;
  /** One of them has ended. */
  end(result: Result): void;
  /** Whether enough have ended to be worth a commit; the others keep the processor busy meanwhile. */
  areGathered(): boolean;
  /** Has what has ended recorded with the next commit; returns what is new in that. */
  take(): readonly Result[];
  /** What the next commit is to record: all that was taken since the last one that succeeded. */
  taken(): readonly Result[];
  /** That commit is on the disk. */
  recorded(): void;
  underWay(): number;
  /** How many have ended and are not taken. */
  waiting(): number;
}

/** @param clock a clock in ms that nobody sets, such as `performance.now`. */
export function createResults(clock: () => number): Results {
  let underWay = 0;
  let ended: Result[] = [];
  /** When the first of them ended. */
  let since = 0;
  let taken: Result[] = [];
  return {
    begin(count) {
      underWay += count;
    },
    end(result) {
      if (ended.length === 0) since = clock();
      ended.push(result);
      underWay -= 1;
    },
    areGathered: () => ended.length > 0 && (ended.length >= underWay || clock() - since >= GATHER_MS),
    take() {
      const fresh = ended;
      taken = [...taken, ...fresh];
      ended = [];
      return fresh;
    },
    taken: () => taken,
    recorded() {
      taken = [];
    },
    underWay: () => underWay,
    waiting: () => ended.length,
  };
}
