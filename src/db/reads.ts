/**
 * Hot reads: queries built and compiled once, run on a connection of their own. They see what is committed, never a
 * transaction that is still open on the writing connection, and wait for none.
 */
import { setImmediate } from 'node:timers';
import Sqlite from 'better-sqlite3';
import type { Kysely } from 'kysely';
import type { Tables } from './schema.ts';
import { type Build, withSlots } from './slots.ts';
import { cachedPrepare } from './sqlite.ts';

export type { Parameter } from './slots.ts';

/** At once with SQLite, later with a database across a network: callers `await` it. */
export type Awaitable<T> = T | Promise<T>;

export interface Read<P, R> {
  all(parameters: P): Awaitable<R[]>;
  first(parameters: P): Awaitable<R | undefined>;
  /** What `all` gives, of one moment too, some rows at a time: very many would hold up everything else. */
  lots(parameters: P, size: number): AsyncIterable<R[]>;
}

export interface Reads {
  /** Compiles a query once: `prepare<{ id: string }>()((db, p) => db.selectFrom('t').where('id', '=', p('id')))`. */
  prepare<P extends object>(): <R>(build: Build<P, R>) => Read<P, R>;
  /**
   * A number that differs from an earlier one when anybody, this process included, has committed in between. Read once
   * in a turn of the event loop: what arrives in one turn was under way at the same time.
   */
  version(): Awaitable<number>;
}

/** Reads over one SQLite connection; `builder` only builds queries and is never asked to run them. */
export function sqliteReads(sqlite: Sqlite.Database, builder: Kysely<Tables>): Reads {
  const statement = cachedPrepare(sqlite);
  const version = sqlite.prepare<[], number>('pragma data_version').pluck();
  let ofThisTurn: number | undefined;
  return {
    version() {
      if (ofThisTurn === undefined) {
        ofThisTurn = version.get() ?? 0;
        setImmediate(() => (ofThisTurn = undefined));
      }
      return ofThisTurn;
    },
    prepare:
      <P extends object>() =>
      <R>(build: Build<P, R>): Read<P, R> => {
        const { query, values } = withSlots(build, builder);
        return {
          all: (parameters) => statement(query.sql).all(values(parameters)) as R[],
          first: (parameters) => statement(query.sql).get(values(parameters)) as R | undefined,
          lots: (parameters, size) => inLots<R>(sqlite.name, query.sql, values(parameters), size),
        };
      },
  };
}

/** On a connection of its own: while a statement is half-way, its connection stays at the moment at which it began. */
async function* inLots<R>(file: string, sql: string, values: readonly unknown[], size: number): AsyncGenerator<R[]> {
  const sqlite = new Sqlite(file, { readonly: true });
  try {
    let lot: R[] = [];
    for (const row of sqlite.prepare(sql).iterate(values)) {
      lot.push(row as R);
      if (lot.length < size) continue;
      yield lot;
      lot = [];
    }
    if (lot.length > 0) yield lot;
  } finally {
    sqlite.close();
  }
}
