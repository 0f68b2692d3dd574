/**
 * Queries that run often: built and compiled at their first use, then run with other parameters. Kysely takes longer to
 * build such a query than SQLite to answer it.
 */
import type { Compilable, CompiledQuery, Insertable, Kysely } from 'kysely';
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

/** Rows of one statement: each statement costs some 20 µs besides its rows, with PostgreSQL a way to the server and back. */
const PIECES = [32, 8, 1];

/**
 * Inserts rows of a table, many with one statement: `compiledInsert('files', ['id', 'path'])`. What a row leaves out is null, and
 * what `columns` leaves out has its default.
 */
export function compiledInsert<T extends keyof Tables, C extends keyof Insertable<Tables[T]> & string>(
  table: T,
  columns: readonly C[],
): (db: Kysely<Tables>, rows: readonly Partial<Pick<Insertable<Tables[T]>, C>>[]) => Promise<void> {
  const pieces = PIECES.map((size) => {
    const slots = Array.from({ length: size }, (_, at) =>
      columns.map((column) => [column, `${at}-${column}`] as const),
    );
    const names = slots.flatMap((row) => row.map(([, name]) => name));
    const query = compiled<Record<string, unknown>>()((db, p) => {
      const values = slots.map((row) => Object.fromEntries(row.map(([column, name]) => [column, p(name)])));
      return db.insertInto(table).values(values as never);
    });
    return { size, names, query };
  });
  return async (db, rows) => {
    let done = 0;
    for (const { size, names, query } of pieces) {
      for (; rows.length - done >= size; done += size) {
        const values = rows.slice(done, done + size).flatMap((row) => columns.map((column) => row[column] ?? null));
        await query.all(db, Object.fromEntries(names.map((name, at) => [name, values[at]])));
      }
    }
  };
}
