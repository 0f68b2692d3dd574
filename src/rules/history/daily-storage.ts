/**
 * Storage by day: once an hour, updates today's value for each account, and for each directory in which something changed
 * today.
 */
import { sql } from 'kysely';
import { type Clock, DAY } from '../../foundation/base/clock.ts';
import type { Database } from '../../foundation/db/open.ts';

/** One pass over an index: about 15 ms for 100,000 directories. */
export async function noteStorage({ database, clock }: { database: Pick<Database, 'db'>; clock: Clock }) {
  const now = clock.now();
  await database.db
    .insertInto('daily_storage')
    .columns(['account_id', 'day', 'bytes'])
    .expression((eb) =>
      eb
        .selectFrom('directories')
        .select(({ fn }) => [
          'account_id',
          sql.lit(now - (now % DAY)).as('day'),
          fn.sum<number>('storage_bytes').as('bytes'),
        ])
        .where('deleted_at', 'is', null)
        .groupBy('account_id')
        // In the same order on every node, so that two nodes do not deadlock.
        .orderBy('account_id'),
    )
    .onConflict((conflict) =>
      conflict.columns(['account_id', 'day']).doUpdateSet((eb) => ({ bytes: eb.ref('excluded.bytes') })),
    )
    .execute();
  const day = now - (now % DAY);
  await database.db
    .updateTable('directory_days')
    .set(({ selectFrom }) => ({
      stored: selectFrom('directories').select('storage_bytes').whereRef('id', '=', 'directory_id'),
    }))
    .where('day', '=', day)
    .execute();
}
