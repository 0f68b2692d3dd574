/** Places for parameters in queries that are built and compiled once (`reads.ts`, `prepared.ts`). */
import type { Compilable, CompiledQuery, Kysely } from 'kysely';
import type { Tables } from './schema.ts';

class Slot {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

/** Stands in a query for the parameter of that name; `T` is the column's type. */
export type Parameter<P> = <K extends keyof P & string>(name: K) => P[K];

export type Build<P, R> = (db: Kysely<Tables>, parameter: Parameter<P>) => Compilable<R>;

export interface WithSlots<P, R> {
  readonly query: CompiledQuery<R>;
  /** The query's parameters in their order. */
  values(parameters: P): unknown[];
}

/** Compiles the query; `builder` only builds it and is never asked to run it. */
export function withSlots<P extends object, R>(build: Build<P, R>, builder: Kysely<Tables>): WithSlots<P, R> {
  // The query only carries the slots to their places; their type is the parameter's for the builder's sake.
  const query = build(builder, (name) => new Slot(name) as never).compile();
  return {
    query,
    values: (parameters) =>
      query.parameters.map((slot) => (slot instanceof Slot ? parameters[slot.name as keyof P] : slot)),
  };
}
