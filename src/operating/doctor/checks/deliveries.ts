/** Checks that no webhook is stuck or late. */
import { DAY, type Micros, SECOND } from '../../../foundation/base/clock.ts';
import type { DeliveryState } from '../../../foundation/db/schema.ts';
import { inspect } from '../../../foundation/db/inspect.ts';
import { presentTime } from '../../../foundation/db/shared.ts';
import { type Check, fail, orOk, warn } from '../finding.ts';
import { counted } from '../../../foundation/base/terminal.ts';

/** A due delivery waits for its destination's turn. After this long, the queue is stuck or too slow. */
const SLOW_AFTER: Micros = 600 * SECOND;
/** A lease lasts 20 s. One this old was abandoned. */
const ABANDONED_AFTER: Micros = 120 * SECOND;

export const checkDeliveries: Check = async ({ database }, clock) => {
  await using inspection = await inspect(database);
  const now = await presentTime(inspection.db, clock);
  const count = async (state: DeliveryState, time: 'due_at' | 'finished_at', is: '<' | '>', at: Micros) => {
    const query = inspection.db
      .selectFrom('deliveries')
      .where('state', '=', state)
      .where(time, is, at)
      .where('event', '<>', 'test');
    const { rows } = await query.select(({ fn }) => fn.countAll<number>().as('rows')).executeTakeFirstOrThrow();
    return rows;
  };
  const overdue = await count('queued', 'due_at', '<', now - SLOW_AFTER);
  const stuck =
    (await count('running', 'due_at', '<', now - ABANDONED_AFTER)) +
    (await count('waiting', 'due_at', '<', now - SLOW_AFTER));
  const failed = await count('failed', 'finished_at', '>', now - DAY);
  const givenUp = failed > 0 ? `; ${failed} failed for good in the last day (berth deliveries --failed)` : '';
  return orOk(
    [
      stuck > 0 && fail(`${stuck} deliveries are stuck in an attempt or before a retry`, 'restart berth'),
      overdue > 0 &&
        warn(
          `due for over 10 minutes: ${counted(overdue, 'webhook')}`,
          'check that berth runs, and which receiver is slow: berth deliveries',
        ),
    ],
    `no webhook is stuck${givenUp}`,
  );
};
