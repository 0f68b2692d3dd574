/**
 * Limits how often a user may try a secret that is short enough to be guessed. The first wrong tries in a row cost nothing;
 * after that, each wrong try doubles the wait for the next, up to an hour. The database counts them, so that they survive a
 * restart and hold on every node.
 */
import { type Micros, SECOND } from '../../foundation/base/clock.ts';
import type { Store } from '../../foundation/context.ts';

/** The number of the first try that makes the next one wait. */
const FIRST_COUNTED = 5;
const FIRST_WAIT: Micros = 30 * SECOND;
const LONGEST_WAIT: Micros = 3600 * SECOND;

export interface Tries {
  /** Counts a try, unless the user has to wait. @returns how long to wait, or 0. */
  begin(userId: string): Promise<Micros>;
  /** Forgets the wrong tries: the last one was right. */
  succeeded(userId: string): Promise<void>;
}

export function createTries({ database: { db }, clock }: Store): Tries {
  return {
    begin: (userId) =>
      db.transaction().execute(async (tx) => {
        const own = tx.selectFrom('users').select('id').where('id', '=', userId).forNoKeyUpdate();
        if (!(await own.executeTakeFirst())) return 0; // removed just now: the try itself fails
        const before = await tx.selectFrom('code_tries').selectAll().where('user_id', '=', userId).executeTakeFirst();
        const now = clock.now();
        const wait = (before?.until ?? 0) - now;
        // A longer wait comes from a clock that has been set back since.
        if (wait > 0 && wait <= LONGEST_WAIT) return wait;
        const count = (before?.count ?? 0) + 1;
        const next = count < FIRST_COUNTED ? 0 : Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (count - FIRST_COUNTED));
        const row = { user_id: userId, count, until: now + next };
        await tx
          .insertInto('code_tries')
          .values(row)
          .onConflict((conflict) => conflict.column('user_id').doUpdateSet(row))
          .execute();
        return 0;
      }),
    async succeeded(userId) {
      await db.deleteFrom('code_tries').where('user_id', '=', userId).execute();
    },
  };
}
