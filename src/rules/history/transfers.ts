/** Writes the transfer history and its daily sums, in the transaction that records the uploads themselves. */
import type { Insertable, Transaction } from 'kysely';
import { DAY } from '../../foundation/base/clock.ts';
import { compiled, compiledInsert } from '../../foundation/db/compiled.ts';
import type { DailyTotalsTable, Tables, TransferEvent, TransfersTable } from '../../foundation/db/schema.ts';
import { addToDay } from './daily-totals.ts';

export type Transfer = Insertable<TransfersTable>;

const insert = compiledInsert('transfers', [
  'at',
  'event',
  'directory_id',
  'account_id',
  'username',
  'address',
  'session_pid',
  'path',
  'from_path',
  'bytes',
  'began_at',
  'reason',
  'via',
]);

const ofThatTime = compiled<Pick<Transfer, 'directory_id' | 'at'>>()((db, p) =>
  db
    .selectFrom('transfers')
    .select(['event', 'path'])
    .where('directory_id', '=', p('directory_id'))
    .where('at', '=', p('at')),
);

/** A received upload counts as recorded, whether or not it has been announced since. */
const SAME: Partial<Record<TransferEvent, TransferEvent>> = { received: 'uploaded' };
const kindOf = (event: TransferEvent): TransferEvent => SAME[event] ?? event;

/** Whether the history has this event already. */
export async function isRecorded(tx: Transaction<Tables>, row: Transfer): Promise<boolean> {
  const rows = await ofThatTime.all(tx, row);
  return rows.some(({ event, path }) => kindOf(event) === kindOf(row.event) && path === (row.path ?? null));
}

export async function insertTransfers(tx: Transaction<Tables>, rows: readonly Transfer[]): Promise<void> {
  await insert(tx, rows);
  for (const total of uploadTotals(rows)) await addToDay(tx, total);
}

/** The totals of accounts. */
function uploadTotals(rows: readonly Transfer[]): DailyTotalsTable[] {
  const totals = new Map<string, DailyTotalsTable>();
  for (const { event, at, account_id: owner_id, bytes } of rows) {
    if (event !== 'uploaded') continue;
    const day = at - (at % DAY);
    const key = `${owner_id} ${day}`;
    const total = totals.get(key) ?? { owner_id, kind: 'uploads', day, count: 0, bytes: 0 };
    total.count += 1;
    total.bytes += bytes ?? 0;
    totals.set(key, total);
  }
  // In the same order on every node, so that two nodes do not deadlock.
  const keys = [...totals.keys()].toSorted();
  return keys.flatMap((key) => totals.get(key) ?? []);
}
