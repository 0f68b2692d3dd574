/**
 * Tries at something short enough to be guessed: the first wrong ones in a row cost nothing, then each makes the next
 * wait, twice as long every time, up to an hour. Kept in the database, so that no restart and no other node forgets them.
 */
import { type Clock, type Micros, SECOND } from '../base/clock.ts';
import type { Database } from '../db/open.ts';

const FREE = 5;
const FIRST_WAIT: Micros = 30 * SECOND;
const LONGEST_WAIT: Micros = 3600 * SECOND;

export interface Tries {
  /** Counts one, unless it has to wait. @returns for how long. */
  begin(userId: string): Promise<Micros>;
  /** The code was right. */
  succeeded(userId: string): Promise<void>;
}

export function createTries({
  database,
  clock,
}: {
  readonly database: Pick<Database, 'db'>;
  readonly clock: Clock;
}): Tries {
  const { db } = database;
  return {
    begin: (userId) =>
      db.transaction().execute(async (tx) => {
        const own = tx.selectFrom('users').select('id').where('id', '=', userId).forNoKeyUpdate();
        if (!(await own.executeTakeFirst())) return 0; // removed just now: what is tried finds out
        const before = await tx.selectFrom('code_tries').selectAll().where('user_id', '=', userId).executeTakeFirst();
        const now = clock.now();
        const wait = (before?.until ?? 0) - now;
        // A longer one is of a clock that has been set back since.
        if (wait > 0 && wait <= LONGEST_WAIT) return wait;
        const count = (before?.count ?? 0) + 1;
        const next = count < FREE ? 0 : Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (count - FREE));
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
