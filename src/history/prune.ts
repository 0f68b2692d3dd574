/**
 * Removes what is older than `BERTH_HISTORY_DAYS`: transfers, audit rows, and deliveries that are finished, with their
 * attempts. In the background, every hour and at the start, a bounded batch at a time, so that nobody waits long.
 */
import { setTimeout } from 'node:timers/promises';
import { type Clock, DAY, type Micros } from '../clock.ts';
import type { Database } from '../db/open.ts';
import type { Log } from '../log.ts';

/** Rows in one transaction: a few ms. */
const BATCH = 500;
/** Between batches, in ms: other writers come first. */
const PAUSE = 20;
const INTERVAL = 3_600_000;

export interface Pruning {
  /** Removes what is old now. Never rejects. */
  prune(): Promise<void>;
  close(): Promise<void>;
}

export interface PruningOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly days: number;
}

export function startPruning({ database, clock, log, days }: PruningOptions): Pruning {
  const stop = new AbortController();
  const removals = [removeTransfers, removeAudit, removeDeliveries];

  async function pruneAll(): Promise<void> {
    const before = clock.now() - days * DAY;
    let rows = 0;
    for (const remove of removals) {
      for (let removed = BATCH; removed === BATCH && !stop.signal.aborted;) {
        removed = await remove(database, before);
        rows += removed;
        if (removed > 0) await setTimeout(PAUSE, undefined, { signal: stop.signal }).catch(() => undefined);
      }
    }
    if (rows > 0) log.info({ rows, days }, 'old history removed');
  }

  let running: Promise<void> | undefined;
  const prune = (): Promise<void> =>
    (running ??= pruneAll()
      .catch((error: unknown) => log.error({ err: error }, 'could not remove old history; the next hour tries again'))
      .finally(() => (running = undefined)));
  const timer = setInterval(() => void prune(), INTERVAL).unref();
  return {
    prune,
    async close() {
      stop.abort();
      clearInterval(timer);
      await running;
    },
  };
}

async function removeTransfers({ db }: Database, before: Micros): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('transfers')
    .where('id', 'in', (from) =>
      from.selectFrom('transfers').select('id').where('at', '<', before).orderBy('at').limit(BATCH),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
}

async function removeAudit({ db }: Database, before: Micros): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('audit')
    .where('id', 'in', (from) =>
      from.selectFrom('audit').select('id').where('at', '<', before).orderBy('at').limit(BATCH),
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
