/** Writes the transfer history and its daily sums, in the transaction that records the uploads themselves. */
import type { Insertable, Transaction } from 'kysely';
import { DAY, type Micros } from '../../foundation/base/clock.ts';
import { compiled, compiledInsert } from '../../foundation/db/compiled.ts';
import type { Tables, TransferEvent, TransfersTable } from '../../foundation/db/schema.ts';
import type { DailyUploadsTable, DirectoryDaysTable } from '../../foundation/db/schema-users.ts';

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

/** Sums are stored, since counting a month of uploads would take longer the more there are. */
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

const addToDirectory = compiled<Omit<DirectoryDaysTable, 'stored'>>()((db, p) =>
  db
    .insertInto('directory_days')
    .values({ directory_id: p('directory_id'), day: p('day'), uploads: p('uploads'), bytes: p('bytes') })
    .onConflict((conflict) =>
      conflict.columns(['directory_id', 'day']).doUpdateSet((eb) => ({
        uploads: eb('directory_days.uploads', '+', eb.ref('excluded.uploads')),
        bytes: eb('directory_days.bytes', '+', eb.ref('excluded.bytes')),
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

/** Events that change how much a directory holds. */
const CHANGING: ReadonlySet<TransferEvent> = new Set(['received', 'uploaded', 'rejected', 'removed']);

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
  const uploads = rows.filter(({ event }) => event === 'uploaded');
  for (const sums of sumsByDay(uploads, ({ account_id }) => ({ account_id }))) await addToDay.all(tx, sums);
  const changes = rows.filter(({ event }) => CHANGING.has(event));
  for (const sums of sumsByDay(changes, ({ directory_id }) => ({ directory_id }))) await addToDirectory.all(tx, sums);
}

/** Sums uploads and their bytes by day and by the result of `of`. A day on which files were only removed has sums of 0. */
function sumsByDay<T extends object>(rows: readonly Transfer[], of: (row: Transfer) => T) {
  const days = new Map<string, T & { day: Micros; uploads: number; bytes: number }>();
  for (const row of rows) {
    const day = row.at - (row.at % DAY);
    const whose = of(row);
    const key = JSON.stringify([day, whose]);
    const sums = days.get(key) ?? { ...whose, day, uploads: 0, bytes: 0 };
    const isUpload = row.event === 'uploaded';
    const bytes = isUpload ? (row.bytes ?? 0) : 0;
    days.set(key, { ...sums, uploads: sums.uploads + (isUpload ? 1 : 0), bytes: sums.bytes + bytes });
  }
  return days.values();
}
