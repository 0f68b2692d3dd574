/**
 * `npm run torture -- many-files [--files 200000] [--folder 50000] [--profiles DIR]`: how long API requests take while berth
 * looks at a directory with that many files, while the one large folder is renamed and removed, with a file that grows all
 * the time. `--profiles` has `berth serve` write CPU profiles there.
 */
import assert from 'node:assert/strict';
import { parseArgs } from 'node:util';
import { crowd } from './crowded.ts';

const { values } = parseArgs({
  options: {
    files: { type: 'string', default: '200000' },
    folder: { type: 'string', default: '50000' },
    profiles: { type: 'string' },
  },
});
const [files, folder] = [Number(values.files), Number(values.folder)];
const phases = await crowd({ files, folder, uploads: 2000, calm: 10_000, profiles: values.profiles });
process.stdout.write('| phase | s | kind | requests | p50 ms | p99 ms | longest ms |\n|---|---|---|---|---|---|---|\n');
for (const { phase, seconds, took } of phases)
  for (const [kind, { requests, p50, p99, longest }] of Object.entries(took))
    process.stdout.write(`| ${phase} | ${seconds} | ${kind} | ${requests} | ${p50} | ${p99} | ${longest} |\n`);
process.stdout.write(`${JSON.stringify({ files, folder, phases })}\n`);
for (const { phase, p99 } of phases) assert.ok(p99 < 50, `${phase}: p99 ${p99} ms`);
