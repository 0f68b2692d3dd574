/**
 * Sends finished deliveries again. Each becomes a new delivery: the same bytes under a new id, to the directory's
 * current URL. The old row and its attempts stay as they are.
 */
import { sql } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import { listed } from '../../foundation/db/dialect.ts';
import { BerthError, ValidationError } from '../../foundation/base/errors.ts';
import { insertAudit } from '../../rules/history/audit.ts';
import { type Delivery, deliveryOf, NO_TEST } from './delivery-list.ts';
import { enqueueDue, replayOf } from './outbox.ts';
import { lockedDirectory, type Target } from '../../rules/directories/target.ts';
import { receiverOf, type WebhookRules } from './receiver-of.ts';

/**
 * @returns the new delivery.
 * @throws {BerthError} `directory_not_found`, `delivery_not_found`; {ValidationError} while the delivery is pending, or when
 * the directory has no webhook URL.
 */
export async function replay(
  { database, clock, wake }: WebhookRules,
  target: Target<Delivery>,
  deliveryId: string,
): Promise<Delivery> {
  const again = await database.db.transaction().execute(async (tx) => {
    const directory = await lockedDirectory(tx, target);
    const old = await tx
      .selectFrom('deliveries')
      .selectAll()
      .where('id', '=', deliveryId)
      .where('directory_id', '=', directory.id)
      .where(NO_TEST)
      .forUpdate()
      .executeTakeFirst();
    if (!old) throw new BerthError('delivery_not_found', 'Delivery not found');
    if (old.finished_at === null) throw new ValidationError({ delivery_id: ['is still pending'] });
    const now = clock.now();
    const { url } = await receiverOf(tx, directory);
    const row = await enqueueDue(tx, replayOf(old, url, now), clock);
    await tx.updateTable('deliveries').set({ replayed_as: row.id, replay_at: null }).where('id', '=', old.id).execute();
    const details = { delivery_id: { from: old.id, to: row.id } };
    await insertAudit(tx, target.actor, { action: 'replay', at: now, directory, details });
    const shown = deliveryOf(row);
    await target.actor?.response?.keep(tx, shown);
    return shown;
  });
  wake();
  return again;
}

/**
 * Requests a replay of the given deliveries, like `replayFailed`. Skips those that have not failed or were replayed
 * already.
 * @returns how many are replayed.
 * @throws {BerthError} `directory_not_found`; {ValidationError} when the directory has no webhook URL.
 */
export async function replayThese(
  { database, clock, wake }: WebhookRules,
  target: Target,
  ids: readonly string[],
): Promise<number> {
  const count = await database.db.transaction().execute(async (tx) => {
    const directory = await lockedDirectory(tx, target);
    await receiverOf(tx, directory);
    const now = clock.now();
    const { numUpdatedRows } = await tx
      .updateTable('deliveries')
      .set({ replay_at: now })
      .where('id', 'in', sql<string>`(${listed(tx, ids, 'text')})`)
      .where('directory_id', '=', directory.id)
      .where('state', '=', 'failed')
      .where(NO_TEST)
      .where('replay_at', 'is', null)
      .where('replayed_as', 'is', null)
      .executeTakeFirstOrThrow();
    const marked = Number(numUpdatedRows);
    const details = { count: { from: null, to: marked } };
    if (marked > 0) await insertAudit(tx, target.actor, { action: 'replay', at: now, directory, details });
    return marked;
  });
  wake();
  return count;
}

/**
 * Requests a replay of every delivery that has failed since a time and was not replayed yet. `replay-queue.ts` carries
 * it out, oldest first. A second request replays nothing twice.
 * @throws {BerthError} `directory_not_found`; {ValidationError} when the directory has no webhook URL.
 */
export async function replayFailed(
  { database, clock, wake }: WebhookRules,
  target: Target<{ count: number }>,
  since: Micros,
): Promise<{ count: number }> {
  const requested = await database.db.transaction().execute(async (tx) => {
    const directory = await lockedDirectory(tx, target);
    await receiverOf(tx, directory);
    const now = clock.now();
    const { numUpdatedRows } = await tx
      .updateTable('deliveries')
      .set({ replay_at: now })
      .where('directory_id', '=', directory.id)
      // A literal, so that the index of failed deliveries can be used.
      .where('state', '=', sql.lit('failed'))
      .where(NO_TEST)
      .where('finished_at', '>=', since)
      .where('replay_at', 'is', null)
      .where('replayed_as', 'is', null)
      .executeTakeFirstOrThrow();
    const count = Number(numUpdatedRows);
    const details = { count: { from: null, to: count } };
    if (count > 0) await insertAudit(tx, target.actor, { action: 'replay', at: now, directory, details });
    await target.actor?.response?.keep(tx, { count });
    return { count };
  });
  wake();
  return requested;
}
