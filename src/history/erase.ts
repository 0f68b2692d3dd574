/**
 * Erasure: what the history says of people is removed before its time. Rows of transfers, logins and finished deliveries go; rows of the
 * audit stay, since they say who used which key, and lose the username and the values of what was changed.
 */
import type { Kysely } from 'kysely';
import type { Tables } from '../db/schema.ts';
import { removeInBatches } from './batches.ts';

/** Rows of the audit that are changed at once. */
const BATCH = 500;

/** One directory's history, or that of all that an account has or had. */
export type Erased = { readonly directory: string } | { readonly account: string };

export interface Erasure {
  readonly transfers: number;
  readonly logins: number;
  readonly deliveries: number;
  readonly audit: number;
}

/** May be interrupted and repeated. */
export async function eraseHistory(db: Kysely<Tables>, what: Erased, signal: AbortSignal): Promise<Erasure> {
  const [column, value] =
    'directory' in what ? (['directory_id', what.directory] as const) : (['account_id', what.account] as const);
  const remove = (
    table: 'transfers' | 'logins' | 'deliveries',
    found: Parameters<typeof removeInBatches>[1]['found'],
  ) => removeInBatches(db, { table, key: 'id', found }, signal);
  const directories = db.selectFrom('audit').select('directory_id').where(column, '=', value).distinct();
  const logins = await remove('logins', db.selectFrom('logins').select('id').where('directory_id', 'in', directories));
  const transfers = await remove('transfers', db.selectFrom('transfers').select('id').where(column, '=', value));
  const finished = db
    .selectFrom('deliveries')
    .select('id')
    .where(column, '=', value)
    .where('finished_at', 'is not', null);
  const deliveries = await remove('deliveries', finished);
  let audit = 0;
  for (let changed = BATCH; changed === BATCH && !signal.aborted; audit += changed) {
    const some = db
      .selectFrom('audit')
      .select('id')
      .where(column, '=', value)
      .where((eb) => eb.or([eb('username', '!=', ''), eb('changes', '!=', '{}')]))
      .limit(BATCH);
    const done = await db
      .updateTable('audit')
      .set({ username: '', changes: '{}' })
      .where('id', 'in', some)
      .executeTakeFirst();
    changed = Number(done.numUpdatedRows);
  }
  return { transfers, logins, deliveries, audit };
}
