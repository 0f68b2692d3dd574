/**
 * Sends finished deliveries again. Each becomes a new delivery: the same bytes under a new id, to the directory's
 * current URL. The old row and its attempts stay as they are.
 */
import { sql } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import { among } from '../../foundation/db/dialect.ts';
import { BerthError, wrongField } from '../../foundation/base/errors.ts';
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
    if (old.finished_at === null) throw wrongField('delivery_id', 'pending');
    const now = clock.now();
    const { url } = await receiverOf(tx, directory);
    const row = await enqueueDue(tx, replayOf(old, url, now), clock);
    await tx.updateTable('deliveries').set({ replayed_as: row.id, replay_at: null }).where('id', '=', old.id).execute();
    const details = { delivery_id: { from: old.id, to: row.id } };
    await insertAudit(tx, target, { action: 'replay', at: now, directory, details });
    const shown = deliveryOf(row);
    await target.actor?.response?.keep(tx, shown);
    return shown;
  });
  wake();
  return again;
}

/** Which failed deliveries: those with an id, or those that have failed since a time. */
export type Failed = { readonly ids: readonly string[] } | { readonly since: Micros };

/**
 * Requests a replay of failed deliveries that were not replayed yet. `start.ts` carries it out, oldest first. A second
 * request replays nothing twice.
 * @returns how many are replayed.
 * @throws {BerthError} `directory_not_found`; {ValidationError} when the directory has no webhook URL.
 */
export async function replayFailed(
  { database, clock, wake }: WebhookRules,
  target: Target<{ count: number }>,
  which: Failed,
): Promise<{ count: number }> {
  const requested = await database.db.transaction().execute(async (tx) => {
    const directory = await lockedDirectory(tx, target);
    await receiverOf(tx, directory);
    const now = clock.now();
    const failed = tx
      .updateTable('deliveries')
      .set({ replay_at: now })
      .where('directory_id', '=', directory.id)
      // A literal, so that the index of failed deliveries can be used.
      .where('state', '=', sql.lit('failed'))
      .where(NO_TEST)
      .where('replay_at', 'is', null)
      .where('replayed_as', 'is', null);
    const chosen =
      'ids' in which ? failed.where('id', 'in', among(tx, which.ids)) : failed.where('finished_at', '>=', which.since);
    const { numUpdatedRows } = await chosen.executeTakeFirstOrThrow();
    const count = Number(numUpdatedRows);
    const details = { count: { from: null, to: count } };
    if (count > 0) await insertAudit(tx, target, { action: 'replay', at: now, directory, details });
    await target.actor?.response?.keep(tx, { count });
    return { count };
  });
  wake();
  return requested;
}

/**
 * Takes back the replays of a directory that are not in the outbox yet.
 * @returns how many.
 * @throws {BerthError} `directory_not_found`.
 */
export async function stopReplays({ database, clock }: Omit<WebhookRules, 'wake'>, target: Target): Promise<number> {
  return database.db.transaction().execute(async (tx) => {
    const directory = await lockedDirectory(tx, target);
    const { numUpdatedRows } = await tx
      .updateTable('deliveries')
      .set({ replay_at: null })
      .where('directory_id', '=', directory.id)
      .where('replay_at', 'is not', null)
      .executeTakeFirstOrThrow();
    const count = Number(numUpdatedRows);
    const details = { stopped: { from: count, to: null } };
    if (count > 0) await insertAudit(tx, target, { action: 'replay', at: clock.now(), directory, details });
    return count;
  });
}
