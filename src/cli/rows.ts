/** Prints rows as a table for people or as JSON for scripts, at once or as they arrive. */
import { setTimeout } from 'node:timers/promises';
import { formatMicros, type Micros } from '../foundation/base/clock.ts';
import { type Cell, columns } from '../foundation/base/text.ts';

/** How often `--follow` checks for new rows. */
const POLL_MS = 500;

export interface RowStyle<Row> {
  /** The cell of each column, by its heading. */
  readonly columns: Readonly<Record<string, (row: Row) => Cell>>;
  json(row: Row): object;
}

export interface RowOutput {
  print(line: string): void;
  readonly json: boolean | undefined;
}

/** Prints all rows at once: as a table, or as one JSON array. */
export function printRows<Row>(rows: readonly Row[], style: RowStyle<Row>, { print, json }: RowOutput): void {
  if (json) print(JSON.stringify(rows.map(style.json)));
  else tablePrinter(style, print)(rows);
}

/** Prints the first rows, then those that `next` returns each time, until `stop`: as lines of a table, or one JSON value per line. */
export async function followRows<Row>(
  first: readonly Row[],
  next: () => Promise<readonly Row[]>,
  style: RowStyle<Row>,
  { print, json, stop }: RowOutput & { readonly stop: AbortSignal },
): Promise<void> {
  const show = json
    ? (rows: readonly Row[]) => rows.forEach((row) => print(JSON.stringify(style.json(row))))
    : tablePrinter(style, print);
  for (let rows = first; ; rows = await next()) {
    show(rows);
    if (stop.aborted) return;
    await setTimeout(POLL_MS, undefined, { signal: stop }).catch(() => undefined);
  }
}

function tablePrinter<Row>(style: RowStyle<Row>, print: (line: string) => void): (rows: readonly Row[]) => void {
  const layOut = columns();
  const cells = Object.values(style.columns);
  let headings: string[][] = [Object.keys(style.columns)];
  return (rows) => {
    for (const line of layOut([...headings, ...rows.map((row) => cells.map((cell) => cell(row)))])) print(line);
    headings = [];
  };
}

/** A time in full; null for null. */
export function fullTime(at: Micros | null): string | null {
  return at === null ? null : formatMicros(at);
}
