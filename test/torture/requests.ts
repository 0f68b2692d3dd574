/**
 * `npm run torture -- requests`: the fuzz of `test/api/hostile-requests.test.ts`, at full size.
 *
 *   node test/torture/requests.ts [--cases 20000]
 */
import { parseArgs } from 'node:util';
import { fuzz } from '../api/fuzz/run.ts';
import { hosted } from '../support/hosted.ts';
import { percentile } from '../support/percentile.ts';
import { scratch } from '../support/scratch.ts';

const { values } = parseArgs({ options: { cases: { type: 'string', default: '20000' } } });

using place = scratch();
await using api = await hosted(place, { rateLimit: 1e9 });
const started = performance.now();
const { sent, statuses, latencies } = await fuzz(api, Number(values.cases));
const ms = (part: number): number => Math.round(percentile(latencies, part) * 10) / 10;
process.stdout.write(
  `${JSON.stringify({
    cases: sent,
    seconds: Math.round((performance.now() - started) / 1000),
    statuses,
    p50_ms: ms(0.5),
    p99_ms: ms(0.99),
    max_ms: ms(1),
    errors_logged: api.errors().length,
    node: process.version,
  })}\n`,
);
