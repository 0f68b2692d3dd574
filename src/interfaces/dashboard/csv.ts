/** Sends rows as a CSV file (RFC 4180) while they are read, so that memory stays small however many there are. */
import { formatMicros, type Micros } from '../../foundation/base/clock.ts';
import { yielder } from '../../foundation/base/event-loop.ts';

export type Cell = string | number | null;

/** @param name the name of the file, in plain ASCII. */
export function csvAnswer(name: string, header: readonly string[], rows: AsyncIterable<readonly Cell[]>): Response {
  const lines = async function* () {
    const pause = yielder();
    yield Buffer.from(lineOf(header));
    for await (const row of rows) {
      yield Buffer.from(lineOf(row));
      await pause();
    }
  };
  return new Response(ReadableStream.from(lines()), {
    headers: { 'content-type': 'text/csv; charset=utf-8', 'content-disposition': `attachment; filename="${name}.csv"` },
  });
}

/** A whole CSV file. */
export function csvText(header: readonly string[], rows: readonly (readonly Cell[])[]): string {
  return [header, ...rows].map(lineOf).join('');
}

/** A time in UTC, in a format that every program can read. */
export function timeCell(at: Micros | null): string {
  return at === null ? '' : formatMicros(at);
}

function lineOf(cells: readonly Cell[]): string {
  return `${cells.map(cellOf).join(',')}\r\n`;
}

/**
 * Spreadsheets take a cell with such a beginning for a formula, and strangers choose names. In many countries spreadsheets
 * separate cells by semicolons, whatever is quoted, and in some the signs may be of full width.
 */
const FORMULA = /(?<=^|[;|\t\r\n])(?=[\s"]*[=+\-@＝＋－＠])|^(?=[\t\r\n])/g;

function cellOf(cell: Cell): string {
  if (typeof cell === 'number') return String(cell);
  const text = (cell ?? '').replaceAll(FORMULA, "'");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
