/**
 * Sends a finished delivery again, as a new one with the same bytes to the same URL: the old row and its attempts stay as
 * they are. A running service finds it when it next looks at its clock, within ten seconds.
 */
import { randomUUID } from 'node:crypto';
import type { Clock } from '../clock.ts';
import type { Database } from '../db/open.ts';
import { OperatorError } from '../errors.ts';

/**
 * @returns the id of the new delivery.
 * @throws {OperatorError} when there is no such delivery, or it is still under way.
 */
export async function replay(
  { database, clock }: { database: Pick<Database, 'db'>; clock: Clock },
  id: string,
): Promise<string> {
  return database.db.transaction().execute(async (tx) => {
    const delivery = await tx.selectFrom('deliveries').selectAll().where('id', '=', id).executeTakeFirst();
    if (!delivery) throw new OperatorError(`there is no delivery ${JSON.stringify(id)}: see berth deliveries`);
    if (delivery.finished_at === null) {
      throw new OperatorError(`the delivery ${id} is ${delivery.state}: berth will send it by itself`);
    }
    const now = clock.now();
    const again = {
      ...delivery,
      id: randomUUID(),
      // What becomes due by time is what the dispatcher looks for without being told.
      state: 'waiting' as const,
      attempts: 0,
      inserted_at: now,
      due_at: now,
      finished_at: null,
    };
    await tx.insertInto('deliveries').values(again).execute();
    return again.id;
  });
}
