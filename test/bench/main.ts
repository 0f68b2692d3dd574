/**
 * `npm run bench`: how fast berth is.
 *
 *   npm run bench [-- --json] [-- --tiny] [-- --against TREE] [-- --flags='FLAG …'] [-- NAME …]
 *
 * Prints one table; progress goes to standard error. `--against` measures the berth of another source tree in turns with
 * this one's, `--flags` this one's a second time with flags of Node's or variables. `--tiny` is what CI runs.
 */
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { benches } from './benches.ts';
import type { Tree } from './berths.ts';
import type { Figure } from './harness.ts';
import { machine, table } from './table.ts';

const HERE = fileURLToPath(new URL('../..', import.meta.url));
const { values, positionals } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    tiny: { type: 'boolean', default: false },
    against: { type: 'string', multiple: true, default: [] },
    flags: { type: 'string', multiple: true, default: [] },
  },
  allowPositionals: true,
});
const unknown = positionals.filter((name) => !benches.some((bench) => bench.name === name));
if (unknown.length > 0) {
  console.error(`no such bench: ${unknown.join(', ')}. There are: ${benches.map(({ name }) => name).join(' ')}`);
  process.exit(2);
}
const trees: Tree[] = [
  [HERE],
  ...values.flags.map((flags) => [HERE, ...flags.split(' ')]),
  ...values.against.map((tree) => [tree]),
];

const figures: Figure[] = [];
for (const bench of benches) {
  if (positionals.length > 0 && !positionals.includes(bench.name)) continue;
  console.error(`bench: ${bench.name} …`);
  const done = await bench.run(values.tiny ? 'tiny' : 'full', trees);
  if (!values.json) console.error(table(done));
  figures.push(...done);
}
console.log(
  values.json ? JSON.stringify({ machine: machine(), figures }, null, 2) : `${machine()}\n\n${table(figures)}`,
);
