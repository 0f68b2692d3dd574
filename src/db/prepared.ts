/**
 * Queries of hot transactions: built and compiled at their first use, then run with other parameters. What `reads.ts` is
 * for reading beside the transactions, this is inside them.
 */
import type { Transaction } from 'kysely';
import type { Tables } from './schema.ts';
import { type Build, type WithSlots, withSlots } from './slots.ts';

export interface Prepared<P, R> {
  all(tx: Transaction<Tables>, parameters: P): Promise<R[]>;
  first(tx: Transaction<Tables>, parameters: P): Promise<R | undefined>;
}

/** `prepared<{ id: string }>()((db, p) => db.deleteFrom('t').where('id', '=', p('id')))`. */
export function prepared<P extends object>(): <R>(build: Build<P, R>) => Prepared<P, R> {
  return <R>(build: Build<P, R>) => {
    // Text depends on the database's dialect, which the adapter stands for.
    const compiled = new WeakMap<object, WithSlots<P, R>>();
    const run = async (tx: Transaction<Tables>, parameters: P): Promise<R[]> => {
      const { adapter } = tx.getExecutor();
      const slots = compiled.get(adapter) ?? withSlots(build, tx);
      compiled.set(adapter, slots);
      const { rows } = await tx.executeQuery<R>({ ...slots.query, parameters: slots.values(parameters) });
      return rows;
    };
    return { all: run, first: async (tx, parameters) => (await run(tx, parameters))[0] };
  };
}
