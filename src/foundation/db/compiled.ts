/**
 * Queries that run often: they are built and compiled at their first use, and then run with other parameters. Kysely
 * takes longer to build such a query than SQLite takes to answer it.
 */
import {
  type Compilable,
  type CompiledQuery,
  type Expression,
  type Insertable,
  type Kysely,
  type RawBuilder,
  sql,
} from 'kysely';
import { isPostgres } from './dialect.ts';
import type { Tables } from './schema.ts';

/** Makes a placeholder in a query for the parameter of that name. */
type Parameter<P> = <K extends keyof P & string>(name: K) => P[K];

export interface Compiled<P, R> {
  all(db: Kysely<Tables>, parameters: P): Promise<R[]>;
  first(db: Kysely<Tables>, parameters: P): Promise<R | undefined>;
}

class Slot {
  readonly name: string;
  /** The index of the row that the value is from. */
  readonly at: number;
  constructor(name: string, at: number) {
    this.name = name;
    this.at = at;
  }
}

/** Builds the query when a dialect first needs it; then runs it with the values that stand in its slots. */
function compiledOnce<R>(build: (db: Kysely<Tables>) => Compilable<R>) {
  // The text of a query depends on the dialect, which is identified by its adapter.
  const known = new WeakMap<object, CompiledQuery<R>>();
  return async (db: Kysely<Tables>, valueOf: (slot: Slot) => unknown): Promise<R[]> => {
    const { adapter } = db.getExecutor();
    let query = known.get(adapter);
    if (!query) {
      query = build(db).compile();
      known.set(adapter, query);
    }
    const parameters = query.parameters.map((value) => (value instanceof Slot ? valueOf(value) : value));
    return (await db.executeQuery<R>({ ...query, parameters })).rows;
  };
}

/** `compiled<{ id: string }>()((db, p) => db.deleteFrom('files').where('id', '=', p('id')))`. */
export function compiled<P extends object = object>() {
  return <R>(build: (db: Kysely<Tables>, parameter: Parameter<P>) => Compilable<R>): Compiled<P, R> => {
    // The builder only puts the slots in place. The cast gives them the parameters' types, so that queries type-check.
    const run = compiledOnce((db) => build(db, (name) => new Slot(name, 0) as never));
    const all = (db: Kysely<Tables>, parameters: P): Promise<R[]> => run(db, ({ name }) => parameters[name as keyof P]);
    return { all, first: async (db, parameters) => (await all(db, parameters))[0] };
  };
}

/**
 * How many rows one statement takes. Each statement costs some 20 µs besides its rows. PostgreSQL takes any number up to
 * the first, since a round trip costs more than the longer text.
 */
const PIECES = [32, 8, 1] as const;

/** Runs a statement for many rows at once. Returns what it returns for all of them. */
function inPieces<P extends object, R>(build: (rows: readonly Parameter<P>[], db: Kysely<Tables>) => Compilable<R>) {
  const known = new Map<number, ReturnType<typeof compiledOnce<R>>>();
  const ofSize = (size: number) => {
    const rows = Array.from(
      { length: size },
      (_, at): Parameter<P> =>
        (name) =>
          new Slot(name, at) as never,
    );
    const run = known.get(size) ?? compiledOnce((db) => build(rows, db));
    known.set(size, run);
    return run;
  };
  return async (db: Kysely<Tables>, rows: readonly P[]): Promise<R[]> => {
    const found: R[] = [];
    for (let done = 0, size = 1; done < rows.length; done += size) {
      const left = rows.length - done;
      size = isPostgres(db) ? Math.min(left, PIECES[0]) : (PIECES.find((piece) => piece <= left) ?? 1);
      const from = done;
      found.push(...(await ofSize(size)(db, ({ name, at }) => rows[from + at]?.[name as keyof P] ?? null)));
    }
    return found;
  };
}

/**
 * Runs a statement for many rows at once. In `build`, `rows` is the list after `values`. Missing fields are null.
 * @param types the types of columns that PostgreSQL cannot infer from the statement.
 */
export function compiledRows<P extends object, R = unknown>(
  columns: readonly (keyof P & string)[],
  build: (rows: RawBuilder<unknown>, db: Kysely<Tables>) => Compilable<R> | RawBuilder<R>,
  types: Partial<Record<keyof P & string, 'text' | 'bigint' | 'bytea'>> = {},
): (db: Kysely<Tables>, rows: readonly P[]) => Promise<R[]> {
  return inPieces<P, R>((rows, db) => {
    const valueIn = (slotOf: Parameter<P>, column: keyof P & string): RawBuilder<unknown> => {
      const slot = sql`${slotOf(column)}`;
      const type = types[column];
      return type && isPostgres(db) ? sql`${slot}::${sql.raw(type)}` : slot;
    };
    const built = build(
      sql.join(rows.map((row) => sql`(${sql.join(columns.map((column) => valueIn(row, column)))})`)),
      db,
    );
    return { compile: () => built.compile(db) };
  });
}

/**
 * Runs one query for each of many parameters, with up to 32 of them in a statement. In `build`, `rows` is what all of them
 * return together.
 */
export function compiledEach<P extends object>() {
  return <E, R>(
    each: (db: Kysely<Tables>, parameter: Parameter<P>) => Expression<E>,
    build: (rows: RawBuilder<E>, db: Kysely<Tables>) => Compilable<R>,
  ) =>
    inPieces<P, R>((parameters, db) => {
      const queries = parameters.map((parameter) => sql`select * from ${each(db, parameter)} as one`);
      return build(sql<E>`(${sql.join(queries, sql` union all `)})`, db);
    });
}

/**
 * Inserts rows into a table: `compiledInsert('files', ['id', 'path'])`. Columns that are not listed get their default.
 */
export function compiledInsert<T extends keyof Tables, C extends keyof Insertable<Tables[T]> & string>(
  table: T,
  columns: readonly C[],
): (db: Kysely<Tables>, rows: readonly Partial<Pick<Insertable<Tables[T]>, C>>[]) => Promise<unknown> {
  const names = sql.join(columns.map((column) => sql.ref(column)));
  return compiledRows(columns, (rows) => sql`insert into ${sql.table(table)} (${names}) values ${rows}`);
}
