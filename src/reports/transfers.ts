/** The transfer history, read for people. */
import type { Selectable } from 'kysely';
import type { Database } from '../db/open.ts';
import type { TransferEvent, TransfersTable } from '../db/schema.ts';
import type { Filter } from './filter.ts';

export type TransferRow = Selectable<TransfersTable> & { readonly external_id: string | null };

export interface TransferFilter extends Filter {
  readonly event?: TransferEvent | undefined;
  /** The id after which to go on, in the order in which rows were committed. */
  readonly after?: number | undefined;
}

/** The newest rows, oldest of them first; with `after`, the rows that came next. */
export async function listTransfers({ db }: Database, filter: TransferFilter): Promise<TransferRow[]> {
  let query = db
    .selectFrom('transfers')
    .leftJoin('directories', 'directories.id', 'transfers.directory_id')
    .selectAll('transfers')
    .select('directories.external_id')
    .limit(filter.limit);
  if (filter.directory !== undefined) query = query.where('transfers.directory_id', '=', filter.directory);
  if (filter.account !== undefined) query = query.where('transfers.account_id', '=', filter.account);
  if (filter.event !== undefined) query = query.where('transfers.event', '=', filter.event);
  if (filter.since !== undefined) query = query.where('transfers.at', '>=', filter.since);
  if (filter.after !== undefined) {
    return query.where('transfers.id', '>', filter.after).orderBy('transfers.id').execute();
  }
  const rows = await query.orderBy('transfers.at', 'desc').orderBy('transfers.id', 'desc').execute();
  return rows.toReversed();
}

/** The id of the row that was committed last, 0 before the first. */
export async function lastTransfer({ db }: Database): Promise<number> {
  const { last } = await db
    .selectFrom('transfers')
    .select(({ fn }) => fn.max('id').as('last'))
    .executeTakeFirstOrThrow();
  return last ?? 0;
}
