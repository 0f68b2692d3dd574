/** Prints rows as they come: a table that keeps its columns for people, or one JSON value a line. */
import { formatMicros, type Micros } from '../clock.ts';
import type { Print } from './output.ts';

export type Cell = string | number | null;

export interface RowStyle<Row> {
  readonly headings: readonly string[];
  cells(row: Row): readonly Cell[];
  json(row: Row): object;
}

/**
 * All rows at once: a table, or with `json` one array.
 * With `lines` each row is a JSON line of its own, for output that goes on.
 */
export function printRows<Row>(
  rows: readonly Row[],
  { headings, cells, json }: RowStyle<Row>,
  { print, as }: { print: Print; as: 'table' | 'json' | 'lines' },
): void {
  if (as === 'json') print(JSON.stringify(rows.map(json)));
  else if (as === 'lines') for (const row of rows) print(JSON.stringify(json(row)));
  else columns(print)([headings, ...rows.map(cells)]);
}

/** A printer of lines in columns; a column that was wide once stays so. The last one is not padded. */
export function columns(print: Print): (lines: readonly (readonly Cell[])[]) => void {
  const widths: number[] = [];
  return (lines) => {
    const shown = lines.map((line) => line.map(printable));
    for (const line of shown) {
      for (const [column, cell] of line.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length);
    }
    for (const line of shown) {
      print(
        line
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd(),
      );
    }
  };
}

/** Names are what anybody likes: nothing in them may move the cursor or colour the terminal. */
function printable(cell: Cell): string {
  if (cell === null || cell === '') return '-';
  return String(cell).replaceAll(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`,
  );
}

/** A time in full, null for none. */
export function fullTime(at: Micros | null): string | null {
  return at === null ? null : formatMicros(at);
}
