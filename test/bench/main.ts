/**
 * `npm run bench`: berth beside what it could at best be.
 *
 *   npm run bench [-- --json] [-- --tiny] [-- NAME …]
 *
 * Prints one table; progress goes to standard error. `--tiny` is what CI runs, and its figures mean nothing.
 */
import { parseArgs } from 'node:util';
import { benches } from './benches.ts';
import type { Figure } from './harness.ts';
import { machine, table } from './table.ts';

const { values, positionals } = parseArgs({
  options: { json: { type: 'boolean', default: false }, tiny: { type: 'boolean', default: false } },
  allowPositionals: true,
});
const unknown = positionals.filter((name) => !benches.some((bench) => bench.name === name));
if (unknown.length > 0) {
  console.error(`no such bench: ${unknown.join(', ')}. There are: ${benches.map(({ name }) => name).join(' ')}`);
  process.exit(2);
}

const figures: Figure[] = [];
for (const bench of benches) {
  if (positionals.length > 0 && !positionals.includes(bench.name)) continue;
  console.error(`bench: ${bench.name} …`);
  const done = await bench.run(values.tiny ? 'tiny' : 'full');
  if (!values.json) console.error(table(done));
  figures.push(...done);
}
console.log(
  values.json ? JSON.stringify({ machine: machine(), figures }, null, 2) : `${machine()}\n\n${table(figures)}`,
);
