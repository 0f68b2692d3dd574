/** Writes the transfer history and its daily sums, in the transaction that records the uploads themselves. */
import type { Insertable, Transaction } from 'kysely';
import { DAY } from '../clock.ts';
import { compiled } from '../db/compiled.ts';
import type { Tables, TransfersTable } from '../db/schema.ts';
import type { DailyUploadsTable } from '../db/schema-users.ts';

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

/** Sums are kept, since counting a month of uploads takes as long as there are many. */
const addToDay = compiled<DailyUploadsTable>()((db, p) =>
  db
    .insertInto('daily_uploads')
    .values({ account_id: p('account_id'), day: p('day'), uploads: p('uploads'), bytes: p('bytes') })
    .onConflict((conflict) =>
      conflict.columns(['account_id', 'day']).doUpdateSet((eb) => ({
        uploads: eb('daily_uploads.uploads', '+', eb.ref('excluded.uploads')),
        bytes: eb('daily_uploads.bytes', '+', eb.ref('excluded.bytes')),
      })),
    ),
);

const ofThatTime = compiled<Pick<Transfer, 'directory_id' | 'at'>>()((db, p) =>
  db
    .selectFrom('transfers')
    .select(['event', 'path'])
    .where('directory_id', '=', p('directory_id'))
    .where('at', '=', p('at')),
);

/** Whether the history has that already. */
export async function isRecorded(tx: Transaction<Tables>, row: Transfer): Promise<boolean> {
  const rows = await ofThatTime.all(tx, row);
  return rows.some(({ event, path }) => event === row.event && path === (row.path ?? null));
}

export async function insertTransfers(tx: Transaction<Tables>, rows: readonly Transfer[]): Promise<void> {
  for (const row of rows) await insert.all(tx, row);
  for (const day of daysOf(rows)) await addToDay.all(tx, day);
}

function daysOf(rows: readonly Transfer[]): Iterable<DailyUploadsTable> {
  const days = new Map<string, DailyUploadsTable>();
  for (const { event, account_id, at, bytes } of rows) {
    if (event !== 'uploaded') continue;
    const day = at - (at % DAY);
    const sums = days.get(`${account_id} ${day}`) ?? { account_id, day, uploads: 0, bytes: 0 };
    days.set(`${account_id} ${day}`, { ...sums, uploads: sums.uploads + 1, bytes: sums.bytes + (bytes ?? 0) });
  }
  return days.values();
}
