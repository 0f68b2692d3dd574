/** The tables that are copied from SQLite to PostgreSQL, and the sums by which the two are compared. */

export interface Column {
  readonly name: string;
  /** The column's type in PostgreSQL: `text`, `bytea`, or a number type. */
  readonly type: string;
  /** The value that all rows get in place of their own. */
  readonly value?: string;
}

export interface CopiedTable {
  readonly name: string;
  readonly columns: readonly Column[];
}

/** Numbers are summed modulo this prime, so that sums stay exact in 64 bits. */
const PRIME = 1_000_003;

/**
 * A query for figures that have to be equal on both sides: the number of rows, and for each column the number of values
 * and a sum: of the numbers modulo `PRIME`, or of the lengths of texts and bytes. Ids also get a checksum.
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
