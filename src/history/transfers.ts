/** Writes the transfer history, in the transaction that records the uploads themselves. */
import type { Insertable, Transaction } from 'kysely';
import { compiled } from '../db/compiled.ts';
import type { Tables, TransfersTable } from '../db/schema.ts';

export type Transfer = Insertable<TransfersTable>;

const insert = compiled<Transfer>()((db, p) =>
  db.insertInto('transfers').values({
    at: p('at'),
    event: p('event'),
    directory_id: p('directory_id'),
    account_id: p('account_id'),
    username: p('username'),
    address: p('address') ?? null,
    session_pid: p('session_pid') ?? null,
    path: p('path') ?? null,
    from_path: p('from_path') ?? null,
    bytes: p('bytes') ?? null,
    began_at: p('began_at') ?? null,
  }),
);

export async function insertTransfers(tx: Transaction<Tables>, rows: readonly Transfer[]): Promise<void> {
  for (const row of rows) await insert.all(tx, row);
}
