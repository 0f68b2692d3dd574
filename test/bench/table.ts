/** The bench's results as a Markdown table, with the machine they were measured on. */
import { readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { type Figure, short } from './harness.ts';

const HEAD = ['what', 'aim', 'median', 'range', 'measured', ''];

export function table(figures: readonly Figure[]): string {
  const rows = figures.map((figure) => [
    figure.what,
    figure.aim,
    `${short(figure.median)} ${figure.unit}`,
    `${short(figure.low)} – ${short(figure.high)}`,
    figure.detail,
    figure.met ? '' : 'missed',
  ]);
  const widths = HEAD.map((title, column) => Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  return [line(HEAD), `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...rows.map(line)].join('\n');
}

/** Processor, memory, kernel, distribution and Node, in a line. */
export function machine(): string {
  const [first] = cpus();
  const system = /^PRETTY_NAME="(.*)"$/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? 'Linux';
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} × ${first?.model.trim() ?? 'CPU'}, ${memory} GiB, Linux ${release()}, ${system}, Node ${process.version}`;
}
