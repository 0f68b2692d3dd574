/**
 * Queries that run often: built and compiled at their first use, then run with other parameters. Kysely takes longer to
 * build such a query than SQLite to answer it.
 */
import type { Compilable, CompiledQuery, Kysely } from 'kysely';
import type { Tables } from './schema.ts';

/** Stands in a query for the parameter of that name. */
type Parameter<P> = <K extends keyof P & string>(name: K) => P[K];

export interface Compiled<P, R> {
  all(db: Kysely<Tables>, parameters: P): Promise<R[]>;
  first(db: Kysely<Tables>, parameters: P): Promise<R | undefined>;
}

class Slot {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

/** `compiled<{ id: string }>()((db, p) => db.deleteFrom('files').where('id', '=', p('id')))`. */
export function compiled<P extends object = object>() {
  return <R>(build: (db: Kysely<Tables>, parameter: Parameter<P>) => Compilable<R>): Compiled<P, R> => {
    // The text depends on the dialect, which the adapter stands for.
    const known = new WeakMap<object, CompiledQuery<R>>();

    async function all(db: Kysely<Tables>, parameters: P): Promise<R[]> {
      const { adapter } = db.getExecutor();
      let query = known.get(adapter);
      if (!query) {
        // The builder only carries the slots to their places; their type is the parameter's for its sake.
        query = build(db, (name) => new Slot(name) as never).compile();
        known.set(adapter, query);
      }
      const values = query.parameters.map((value) =>
        value instanceof Slot ? parameters[value.name as keyof P] : value,
      );
      return (await db.executeQuery<R>({ ...query, parameters: values })).rows;
    }
    return { all, first: async (db, parameters) => (await all(db, parameters))[0] };
  };
}
