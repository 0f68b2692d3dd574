/** The outbox, read for people: what is to be sent, was sent or failed, and what the last attempt came to. */
import { sql } from 'kysely';
import type { Database } from '../db/open.ts';
import type { AttemptsTable, DeliveriesTable } from '../db/schema.ts';
import type { Filter } from './filter.ts';

export type DeliveryRow = Pick<
  DeliveriesTable,
  | 'id'
  | 'directory_id'
  | 'account_id'
  | 'destination'
  | 'body'
  | 'state'
  | 'attempts'
  | 'inserted_at'
  | 'due_at'
  | 'finished_at'
> & { [K in 'status' | 'error' | 'latency_us']: AttemptsTable[K] };

export interface DeliveryFilter extends Filter {
  /** Only those that are given up. */
  readonly failed?: boolean | undefined;
}

/** The newest rows, oldest of them first. */
export async function listDeliveries({ db }: Database, filter: DeliveryFilter): Promise<DeliveryRow[]> {
  let query = db
    .selectFrom('deliveries as d')
    .leftJoin('attempts as a', (join) => join.onRef('a.delivery_id', '=', 'd.id').onRef('a.number', '=', 'd.attempts'))
    .select([
      'd.id',
      'd.directory_id',
      'd.account_id',
      'd.destination',
      'd.body',
      'd.state',
      'd.attempts',
      'd.inserted_at',
      'd.due_at',
      'd.finished_at',
      'a.status',
      'a.error',
      'a.latency_us',
    ])
    .orderBy('d.inserted_at', 'desc')
    .limit(filter.limit);
  // A literal, so that the index of just these can be used.
  if (filter.failed) query = query.where('d.state', '=', sql.lit('failed'));
  if (filter.directory !== undefined) query = query.where('d.directory_id', '=', filter.directory);
  if (filter.account !== undefined) query = query.where('d.account_id', '=', filter.account);
  if (filter.since !== undefined) query = query.where('d.inserted_at', '>=', filter.since);
  return (await query.execute()).toReversed();
}
