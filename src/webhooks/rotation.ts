/**
 * Destinations take turns: a cursor goes round those that have something due, a piece at a time, so that a round's cost
 * is bounded however many there are.
 */
import type { Turn } from './claim.ts';
import type { QueueReads } from './queries.ts';
import type { Slots } from './slots.ts';

/** Destinations looked at in one piece. */
const PIECE = 256;
/** Deliveries claimed in one piece: few, so that what just became due does not wait for a long transaction. */
const CLAIMS = 32;

export interface Rotation {
  /** The next turns to take. `complete` when nobody in the whole round has anything due and room for it. */
  next(): Promise<{ readonly turns: Turn[]; readonly complete: boolean }>;
  /** Something may have changed: a full round has to be made again. */
  restart(): void;
}

export function createRotation(queue: QueueReads, slots: Slots): Rotation {
  let cursor = '';
  /** How many times the end has to be passed until all have been looked at since the last change. */
  let ends = 1;
  return {
    restart() {
      ends = cursor === '' ? 1 : 2;
    },
    async next() {
      if (ends === 0) return { turns: [], complete: true };
      const destinations = await queue.destinations(cursor, PIECE);
      const turns: Turn[] = [];
      let left = CLAIMS;
      cursor = destinations.length < PIECE ? '' : (destinations.at(-1) ?? '');
      for (const destination of destinations) {
        const count = Math.min(slots.room(destination), left);
        if (count === 0) continue;
        turns.push({ destination, count });
        slots.take(destination, count);
        left -= count;
        if (left === 0) {
          cursor = destination;
          break;
        }
      }
      if (turns.length > 0) ends = cursor === '' ? 1 : 2;
      else if (cursor === '') ends -= 1;
      return { turns, complete: ends === 0 };
    },
  };
}
