/** Writes the transfer history, in the transaction that records the uploads themselves. */
import type { Insertable, Transaction } from 'kysely';
import type { Tables, TransfersTable } from '../db/schema.ts';

export type Transfer = Insertable<TransfersTable>;

/** Rows in one statement: few enough that its text is one of a few that stay compiled. */
const ROWS = 64;

export async function insertTransfers(tx: Transaction<Tables>, rows: readonly Transfer[]): Promise<void> {
  for (let start = 0; start < rows.length; start += ROWS) {
    await tx
      .insertInto('transfers')
      .values(rows.slice(start, start + ROWS))
      .execute();
  }
}
