/**
 * Sends finished deliveries again, each as a new one: the same bytes under a new id, to the directory's URL of today. The
 * old row and its attempts stay as they are.
 */
import { sql } from 'kysely';
import { verifyAsker } from '../accounts/asker.ts';
import type { Micros } from '../clock.ts';
import { listed } from '../db/dialect.ts';
import { BerthError, ValidationError } from '../errors.ts';
import { insertAudit } from '../history/audit.ts';
import type { KeptAnswer } from '../history/kept-answers.ts';
import { type Delivery, deliveryOf } from './delivery-list.ts';
import { enqueueDue, replayOf } from './outbox.ts';
import { lockedDirectory, type Target } from '../directories/target.ts';
import { receiverOf, type WebhookRules } from './receiver-of.ts';

/**
 * @returns the new delivery.
 * @throws {BerthError} `directory_not_found`, `delivery_not_found`; {ValidationError} while the delivery is pending, or when
 * the directory has no webhook URL.
 */
export async function replay(
  { database, clock, wake }: WebhookRules,
  target: Target,
  deliveryId: string,
  answer?: KeptAnswer<Delivery>,
): Promise<Delivery> {
  const again = await database.db.transaction().execute(async (tx) => {
    await verifyAsker(tx, target.asker);
    const directory = await lockedDirectory(tx, target);
    const old = await tx
      .selectFrom('deliveries')
      .selectAll()
      .where('id', '=', deliveryId)
      .where('directory_id', '=', directory.id)
      .forUpdate()
      .executeTakeFirst();
    if (!old) throw new BerthError('delivery_not_found', 'Delivery not found');
    if (old.finished_at === null) throw new ValidationError({ delivery_id: ['is still pending'] });
    const now = clock.now();
    const { url } = await receiverOf(tx, directory);
    const row = await enqueueDue(tx, replayOf(old, url, now), clock);
    await tx.updateTable('deliveries').set({ replayed_as: row.id, replay_at: null }).where('id', '=', old.id).execute();
    const details = { delivery_id: { from: old.id, to: row.id } };
    if (target.asker) await insertAudit(tx, target.asker, { action: 'replay', at: now, directory, details });
    const shown = deliveryOf(row);
    await answer?.keep(tx, shown);
    return shown;
  });
  wake();
  return again;
}

/**
 * Asks for a replay of those deliveries that have failed and were not replayed yet, like `replayFailed`.
 * @returns how many.
 * @throws {BerthError} `directory_not_found`; {ValidationError} when the directory has no webhook URL.
 */
export async function replayThese(
  { database, clock, wake }: WebhookRules,
  target: Target,
  ids: readonly string[],
): Promise<number> {
  const count = await database.db.transaction().execute(async (tx) => {
    await verifyAsker(tx, target.asker);
    const directory = await lockedDirectory(tx, target);
    await receiverOf(tx, directory);
    const now = clock.now();
    const { numUpdatedRows } = await tx
      .updateTable('deliveries')
      .set({ replay_at: now })
      .where('id', 'in', sql<string>`(${listed(tx, ids, 'text')})`)
      .where('directory_id', '=', directory.id)
      .where('state', '=', 'failed')
      .where('replay_at', 'is', null)
      .where('replayed_as', 'is', null)
      .executeTakeFirstOrThrow();
    const marked = Number(numUpdatedRows);
    const details = { count: { from: null, to: marked } };
    if (target.asker && marked > 0)
      await insertAudit(tx, target.asker, { action: 'replay', at: now, directory, details });
    return marked;
  });
  wake();
  return count;
}

/**
 * Asks for a replay of every delivery that has failed since then and was not replayed yet; `replay-queue.ts` does it, the
 * oldest first. Asked twice, it replays nothing twice.
 * @throws {BerthError} `directory_not_found`; {ValidationError} when the directory has no webhook URL.
 */
export async function replayFailed(
  { database, clock, wake }: WebhookRules,
  target: Target,
  since: Micros,
  answer?: KeptAnswer<{ count: number }>,
): Promise<{ count: number }> {
  const asked = await database.db.transaction().execute(async (tx) => {
    await verifyAsker(tx, target.asker);
    const directory = await lockedDirectory(tx, target);
    await receiverOf(tx, directory);
    const now = clock.now();
    const { numUpdatedRows } = await tx
      .updateTable('deliveries')
      .set({ replay_at: now })
      .where('directory_id', '=', directory.id)
      // A literal, so that the index of failed deliveries can be used.
      .where('state', '=', sql.lit('failed'))
      .where('finished_at', '>=', since)
      .where('replay_at', 'is', null)
      .where('replayed_as', 'is', null)
      .executeTakeFirstOrThrow();
    const count = Number(numUpdatedRows);
    const details = { count: { from: null, to: count } };
    if (target.asker && count > 0)
      await insertAudit(tx, target.asker, { action: 'replay', at: now, directory, details });
    await answer?.keep(tx, { count });
    return { count };
  });
  wake();
  return asked;
}
