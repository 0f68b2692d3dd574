/**
 * Destinations take turns: a cursor goes round those that have something due, a piece at a time, so that the cost of a
 * look is bounded however many there are.
 */
import { type Kysely, sql } from 'kysely';
import { compiled } from '../db/compiled.ts';
import type { Tables } from '../db/schema.ts';
import type { Turn } from './queue.ts';
import type { Slots } from './slots.ts';

/** Destinations looked at in one piece. */
const PIECE = 256;
/** Deliveries claimed in one piece: few, so that what just became due does not wait for a long transaction. */
const CLAIMS = 32;

/** Jumps through the index from one destination to the next: its cost does not grow with the queues. */
const dueAfter = compiled<{ after: string; limit: number }>()((db, p) => ({
  compile: () =>
    sql<{ destination: string }>`
      with recursive turns(destination) as (
        select min(destination) from deliveries where state = 'queued' and destination > ${p('after')}
        union all
        select (select min(destination) from deliveries where state = 'queued' and destination > turns.destination)
        from turns where turns.destination is not null
      )
      select destination from turns where destination is not null limit ${p('limit')}`.compile(db),
}));

export interface Turns {
  /** The next turns, with their slots taken. `complete` when the whole round has nothing due that there is room for. */
  next(): Promise<{ readonly turns: Turn[]; readonly complete: boolean }>;
  /** Something may have changed: a whole round has to be made again. */
  restart(): void;
}

export function createTurns(reads: Kysely<Tables>, slots: Slots): Turns {
  let cursor = '';
  /** How many times the cursor has to pass the end until all have been looked at since the last change. */
  let ends = 1;

  function restart(): void {
    ends = cursor === '' ? 1 : 2;
  }

  return {
    restart,
    async next() {
      const turns: Turn[] = [];
      if (ends === 0) return { turns, complete: true };
      const piece = await dueAfter.all(reads, { after: cursor, limit: PIECE });
      let left = CLAIMS;
      cursor = piece.length < PIECE ? '' : (piece.at(-1)?.destination ?? '');
      for (const { destination } of piece) {
        const count = slots.take(destination, left);
        if (count === 0) continue;
        turns.push({ destination, count });
        left -= count;
        if (left === 0) {
          cursor = destination;
          break;
        }
      }
      if (turns.length > 0) restart();
      else if (cursor === '') ends -= 1;
      return { turns, complete: ends === 0 };
    },
  };
}
