/** `npm run bench`: how fast berth is (docs/bench.md). Prints one table; progress goes to standard error. */
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { errorMessage } from '../../src/errors.ts';
import { benches } from './benches.ts';
import type { Tree } from './berths.ts';
import type { Figure } from './harness.ts';
import { machine, table } from './table.ts';

const HERE = fileURLToPath(new URL('../..', import.meta.url));
const NAMES = benches.map(({ name }) => name).join(' ');
const USAGE = `npm run bench [-- OPTION … NAME …]

  --json            the figures as JSON
  --tiny            small and quick, as CI runs them: the figures mean nothing
  --against TREE    measures the berth of another source tree in turns with this one's
  --flags='FLAG …'  measures this one a second time with flags of Node's (--…) or variables (NAME=value)

Names, all of them when none is given: ${NAMES}

Example, with the bounds of an installed berth:
  npm run bench -- --flags='--max-semi-space-size=1 --max-old-space-size=512 MALLOC_ARENA_MAX=1' small-uploads`;

const { values, positionals } = readArguments();
const unknown = positionals.filter((name) => !benches.some((bench) => bench.name === name));
if (unknown.length > 0) {
  console.error(`no such bench: ${unknown.join(', ')}. There are: ${NAMES}`);
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

function readArguments() {
  try {
    const read = parseArgs({
      options: {
        help: { type: 'boolean', short: 'h' },
        json: { type: 'boolean', default: false },
        tiny: { type: 'boolean', default: false },
        against: { type: 'string', multiple: true, default: [] },
        flags: { type: 'string', multiple: true, default: [] },
      },
      allowPositionals: true,
    });
    if (!read.values.help) return read;
    console.log(USAGE);
    process.exit(0);
  } catch (error) {
    console.error(`${errorMessage(error)}\n\n${USAGE}`);
    process.exit(2);
  }
}
