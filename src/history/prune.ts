/**
 * Removes what is older than `BERTH_HISTORY_DAYS`: transfers, audit rows, logins, sums by day, and deliveries that are
 * finished, with their attempts; and answers that were kept for a day. A bounded batch at a time, so that nobody waits long.
 */
import { DAY, type Micros } from '../clock.ts';
import type { ClockLead } from '../clock-lead.ts';
import type { Database } from '../db/open.ts';
import type { Log } from '../log.ts';
import { BATCH, inBatches } from './batches.ts';
import { ANSWER_LIFE } from './kept-answers.ts';

export interface PruningOptions {
  readonly database: Database;
  readonly log: Log;
  readonly clockLead: ClockLead;
  readonly historyDays: number;
}

export async function pruneHistory(options: PruningOptions, signal: AbortSignal): Promise<void> {
  const { database, clockLead, log, historyDays: days } = options;
  const { now } = await clockLead();
  const before = now - days * DAY;
  const all = (batch: () => Promise<number>): Promise<number> => inBatches(batch, signal);
  const rows =
    (await all(() => remove(database, 'transfers', before))) +
    (await all(() => remove(database, 'audit', before))) +
    (await all(() => remove(database, 'logins', before))) +
    (await all(() => removeDeliveries(database, before)));
  for (const table of ['daily_uploads', 'daily_storage', 'daily_refusals'] as const)
    await database.db
      .deleteFrom(table)
      .where('day', '<', before - DAY)
      .execute();
  if (rows > 0) log.info({ rows, days }, 'old history removed');
  await all(() => removeAnswers(database, now - ANSWER_LIFE));
}

async function remove({ db }: Database, table: 'transfers' | 'audit' | 'logins', before: Micros): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom(table)
    .where('id', 'in', (from) =>
      from.selectFrom(table).select('id').where('at', '<', before).orderBy('at').limit(BATCH).forUpdate().skipLocked(),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
}

async function removeAnswers({ db }: Database, before: Micros): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('kept_answers')
    .where('id', 'in', (from) =>
      from
        .selectFrom('kept_answers')
        .select('id')
        .where('inserted_at', '<', before)
        .orderBy('inserted_at')
        .limit(BATCH)
        .forUpdate()
        .skipLocked(),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
}

/** Attempts go with their delivery (on delete cascade). What is still to be sent stays, however old. */
async function removeDeliveries({ db }: Database, before: Micros): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('deliveries')
    .where('id', 'in', (from) =>
      from
        .selectFrom('deliveries')
        .select('id')
        .where('inserted_at', '<', before)
        .where('finished_at', '<', before)
        // Its replay was asked for and is not there yet.
        .where('replay_at', 'is', null)
        .orderBy('inserted_at')
        .limit(BATCH)
        .forUpdate()
        .skipLocked(),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
}
