/** `npm run bench`: how fast berth is (docs/bench.md). Prints one table; progress goes to standard error. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { errorMessage } from '../../src/foundation/base/errors.ts';
import { benches } from './benches.ts';
import { ON_POSTGRES } from '../support/postgres.ts';
import { globalTeardown, startCluster } from '../support/postgres-cluster.ts';
import { POSTGRES, type Tree } from './berths.ts';
import type { Figure } from './harness.ts';
import { machine, table } from './table.ts';

const HERE = fileURLToPath(new URL('../..', import.meta.url));
/** Unlike that of the tests, which forgets. */
const AS_IT_COMES = ['shared_buffers=128MB', 'fsync=on', 'full_page_writes=on', 'autovacuum_naptime=1min'];
const NAMES = benches.map(({ name }) => name).join(' ');
const USAGE = `npm run bench [-- OPTION … NAME …]

  --json            the figures as JSON
  --tiny            small and quick, to see that it works: the figures mean nothing
  --postgres        measures this one on PostgreSQL, too, a server of its own with the settings that it comes with
  --against TREE    measures the berth of another source tree in turns with this one's
  --flags='FLAG …'  measures this one a second time with further flags of Node's (--…) or variables (NAME=value)

Names, all of them when none is given: ${NAMES}

Example, with more room for what is short-lived:
  npm run bench -- --flags='--max-semi-space-size=8' small-uploads`;

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
  ...(values.postgres ? [[HERE, POSTGRES]] : []),
];
const server = values.postgres ? await startCluster(AS_IT_COMES) : undefined;

const figures: Figure[] = [];
for (const bench of benches) {
  if (positionals.length > 0 && !positionals.includes(bench.name)) continue;
  console.error(`bench: ${bench.name} …`);
  const done = await bench.run(values.tiny ? 'tiny' : 'full', trees);
  if (server && bench.isOfThisProcess === true) done.push(...runOnPostgres(bench.name));
  if (!values.json) console.error(table(done));
  figures.push(...done);
}
console.log(
  values.json ? JSON.stringify({ machine: machine(), figures }, null, 2) : `${machine()}\n\n${table(figures)}`,
);
if (server) console.error(slowStatements(join(server.folder, 'log')));
await globalTeardown();

/** The same bench in a process whose berths are on PostgreSQL. */
function runOnPostgres(name: string): Figure[] {
  const words = [
    ...process.execArgv,
    fileURLToPath(import.meta.url),
    '--json',
    ...(values.tiny ? ['--tiny'] : []),
    name,
  ];
  const env = { ...process.env, ...ON_POSTGRES };
  const json = execFileSync(process.execPath, words, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  const { figures: made } = JSON.parse(json) as { figures: Figure[] };
  return made.map((each) => ({ ...each, database: 'PostgreSQL' }));
}

/** Statements that took the server more than 20 ms in large databases. */
function slowStatements(log: string): string {
  const slow = readFileSync(log, 'utf8')
    .split('\n')
    .filter((line) => line.includes(' duration: '));
  return [`statements slower than 20 ms: ${slow.length}`, ...slow.slice(0, 50)].join('\n');
}

function readArguments() {
  try {
    const read = parseArgs({
      options: {
        help: { type: 'boolean', short: 'h' },
        json: { type: 'boolean', default: false },
        postgres: { type: 'boolean', default: false },
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
