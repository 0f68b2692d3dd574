/** Removes many rows in bounded batches, so that other writers never wait long. */
import { setTimeout } from 'node:timers/promises';
import { type Kysely, type SelectQueryBuilder, sql } from 'kysely';
import type { Tables } from '../../foundation/db/schema.ts';

/** Rows in one transaction, which takes a few ms. */
const BATCH = 500;
/** The pause between batches, for other writers. */
const PAUSE_MS = 20;

/** The rows to remove: `found` selects their `key`, and is repeated with a limit. */
export interface Batches {
  readonly table: keyof Tables;
  readonly key: 'id' | 'hash';
  readonly found: SelectQueryBuilder<Tables, keyof Tables, object>;
}

/** Removes these rows, except those that another node is removing. Returns how many were removed. */
export async function removeInBatches(db: Kysely<Tables>, batches: Batches, signal: AbortSignal): Promise<number> {
  const { table, key, found } = batches;
  const some = found.limit(BATCH).forUpdate().skipLocked();
  let rows = 0;
  for (let removed = BATCH; removed === BATCH && !signal.aborted;) {
    const { numAffectedRows } = await sql`delete from ${sql.table(table)} where ${sql.ref(key)} in ${some}`.execute(db);
    removed = Number(numAffectedRows);
    rows += removed;
    if (removed > 0) await setTimeout(PAUSE_MS, undefined, { signal }).catch(() => undefined);
  }
  return rows;
}
