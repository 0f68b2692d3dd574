/** The bench's results as a Markdown table, with the machine they were measured on. */
import { readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { type Figure, short } from './harness.ts';

/** A row for each figure; what was measured on either database is in one. */
export function table(figures: readonly Figure[]): string {
  const isOnBoth = figures.some(({ database }) => database !== undefined);
  const head = ['what', 'aim', 'median', 'range', ...(isOnBoth ? ['PostgreSQL', 'range'] : []), 'measured', ''];
  const rows = [...Map.groupBy(figures, ({ what }) => what)].map(([what, same]) => {
    const own = same.find(({ database }) => database === undefined);
    const other = same.find(({ database }) => database !== undefined);
    return [
      what,
      (own ?? other)?.aim ?? '',
      ...measured(own),
      ...(isOnBoth ? measured(other) : []),
      same
        .map(({ detail }) => detail)
        .filter(Boolean)
        .join('; '),
      same.every(({ met }) => met) ? '' : 'missed',
    ];
  });
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  return [line(head), `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...rows.map(line)].join('\n');
}

/** Median and range. */
function measured(figure: Figure | undefined): [string, string] {
  if (!figure) return ['', ''];
  return [`${short(figure.median)} ${figure.unit}`, `${short(figure.low)} – ${short(figure.high)}`];
}

/** Processor, memory, kernel, distribution and Node, in a line. */
export function machine(): string {
  const [first] = cpus();
  const system = /^PRETTY_NAME="(.*)"$/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? 'Linux';
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} × ${first?.model.trim() ?? 'CPU'}, ${memory} GiB, Linux ${release()}, ${system}, Node ${process.version}`;
}
