/** Removes many rows in bounded batches, so that other writers never wait long. */
import { setTimeout } from 'node:timers/promises';
import { type Kysely, type SelectQueryBuilder, sql } from 'kysely';
import type { Tables } from '../db/schema.ts';

/** Rows in one transaction: a few ms. */
const BATCH = 500;
/** Between batches, in ms: other writers come first. */
const PAUSE = 20;

/** Rows to be removed, by their key: the first of them go first. */
export interface Batches {
  readonly table: keyof Tables;
  readonly key: 'id' | 'hash';
  readonly found: SelectQueryBuilder<Tables, keyof Tables, object>;
}

/** Removes them all, but for those that another machine removes just now. Returns how many rows went. */
export async function removeInBatches(db: Kysely<Tables>, batches: Batches, signal: AbortSignal): Promise<number> {
  const { table, key, found } = batches;
  const some = found.limit(BATCH).forUpdate().skipLocked();
  let rows = 0;
  for (let removed = BATCH; removed === BATCH && !signal.aborted;) {
    const { numAffectedRows } = await sql`delete from ${sql.table(table)} where ${sql.ref(key)} in ${some}`.execute(db);
    removed = Number(numAffectedRows);
    rows += removed;
    if (removed > 0) await setTimeout(PAUSE, undefined, { signal }).catch(() => undefined);
  }
  return rows;
}
