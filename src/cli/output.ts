/** How commands print: a table for people, one JSON value for scripts. */

/** Writes one line to standard output. */
export type Print = (line: string) => void;

/** A time as people read it; `-` for none. */
export function shownTime(micros: number | null): string {
  return micros === null ? '-' : new Date(Math.floor(micros / 1000)).toISOString().replace(/\.\d+Z$/, 'Z');
}

/** Columns as wide as their widest cell. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows];
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
