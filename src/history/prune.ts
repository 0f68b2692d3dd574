/**
 * Removes what is older than `BERTH_HISTORY_DAYS`: transfers, audit rows, and deliveries that are finished, with their
 * attempts. A bounded batch at a time, so that nobody waits long.
 */
import { setTimeout } from 'node:timers/promises';
import { DAY, type Micros } from '../clock.ts';
import type { ClockLead } from '../clock-lead.ts';
import type { Database } from '../db/open.ts';
import type { Log } from '../log.ts';

/** Rows in one transaction: a few ms. */
const BATCH = 500;
/** Between batches, in ms: other writers come first. */
const PAUSE = 20;

export interface PruningOptions {
  readonly database: Database;
  readonly log: Log;
  readonly clockLead: ClockLead;
  readonly historyDays: number;
}

export async function pruneHistory(options: PruningOptions, signal: AbortSignal): Promise<void> {
  const { database, clockLead, log, historyDays: days } = options;
  const before = (await clockLead()).now - days * DAY;
  let rows = 0;
  for (const table of ['transfers', 'audit', 'deliveries'] as const) {
    for (let removed = BATCH; removed === BATCH && !signal.aborted;) {
      removed =
        table === 'deliveries' ? await removeDeliveries(database, before) : await remove(database, table, before);
      rows += removed;
      if (removed > 0) await setTimeout(PAUSE, undefined, { signal }).catch(() => undefined);
    }
  }
  if (rows > 0) log.info({ rows, days }, 'old history removed');
}

async function remove({ db }: Database, table: 'transfers' | 'audit', before: Micros): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom(table)
    .where('id', 'in', (from) =>
      from.selectFrom(table).select('id').where('at', '<', before).orderBy('at').limit(BATCH),
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
        .orderBy('inserted_at')
        .limit(BATCH),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
}
