/** The tables that go from SQLite to PostgreSQL, and the sums by which both are compared. */

export interface Column {
  readonly name: string;
  /** PostgreSQL's: `text`, `bytea`, or a number's. */
  readonly type: string;
  /** What all rows get in the place of what they had. */
  readonly value?: string;
}

export interface CopiedTable {
  readonly name: string;
  readonly columns: readonly Column[];
}

/** Sums of remainders stay exact in 64 bits, whatever the values. */
const PRIME = 1_000_003;

/**
 * A query for what has to be the same on both sides: how many rows, and for each column how many values and their sum: of
 * numbers, of lengths in bytes, of checksums for ids.
 * @param checksum an aggregate that is the same for the same texts in any order.
 */
export function sumsIn({ name, columns }: CopiedTable, checksum: (column: string) => string): string {
  const sums = columns
    .filter(({ value }) => value === undefined)
    .flatMap(({ name: column, type }) => {
      const sum = type === 'text' || type === 'bytea' ? `sum(octet_length(${column}))` : `sum(${column} % ${PRIME})`;
      const ids = column === 'id' && type === 'text' ? [`${checksum(column)} as "${column} by checksum"`] : [];
      return [`count(${column}) as "values of ${column}"`, `coalesce(${sum}, 0) as "${column}"`, ...ids];
    });
  return `select ${['count(*) as rows', ...sums].join(', ')} from ${name}`;
}
