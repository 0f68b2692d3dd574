/**
 * Removes history that is older than `BERTH_HISTORY_DAYS`: transfers, events, audit rows, logins, totals by day, and finished
 * deliveries with their attempts. Also removes stored responses that are older than a day. Works in small batches, so that no
 * other writer waits long.
 */
import type { Kysely } from 'kysely';
import { DAY, type Micros } from '../../foundation/base/clock.ts';
import type { Ground } from '../../foundation/context.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { type Batches, removeInBatches } from './batches.ts';
import { numberBefore } from './events.ts';
import { ANSWER_LIFE, recountKept } from './stored-responses.ts';

export async function pruneHistory({ config, database, clockLead, log }: Ground, signal: AbortSignal): Promise<void> {
  const { historyDays: days } = config;
  const { now } = await clockLead();
  const before = now - days * DAY;
  const { db } = database;
  const remove = (table: Batches['table'], found: Batches['found']): Promise<number> =>
    removeInBatches(db, { table, key: 'id', found }, signal);
  let rows = 0;
  await numberBefore(db, before, signal);
  for (const table of ['transfers', 'events', 'audit', 'logins'] as const)
    rows += await remove(table, db.selectFrom(table).select('id').where('at', '<', before).orderBy('at'));
  rows += await remove('deliveries', finishedDeliveries(db, before));
  await db
    .deleteFrom('daily_totals')
    .where('day', '<', before - DAY)
    .execute();
  if (rows > 0) log.info({ rows, days }, 'old history removed');
  const answers = db
    .selectFrom('kept_answers')
    .select('id')
    .where('inserted_at', '<', now - ANSWER_LIFE);
  if ((await remove('kept_answers', answers.orderBy('inserted_at'))) > 0) await recountKept(db);
}

/** Attempts are removed with their delivery (on delete cascade). A delivery that is still to be sent stays, however old. */
function finishedDeliveries(db: Kysely<Tables>, before: Micros) {
  return (
    db
      .selectFrom('deliveries')
      .select('id')
      .where('inserted_at', '<', before)
      .where('finished_at', '<', before)
      // A delivery whose replay is requested but not made yet stays.
      .where('replay_at', 'is', null)
      .orderBy('inserted_at')
  );
}
