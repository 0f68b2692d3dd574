/**
 * `npm run torture -- receivers`: the latency of webhooks for a healthy receiver beside 200 dead ones with 10,000 queued
 * webhooks, against the same without them.
 *
 *   node test/torture/receivers.ts [--turns 100] [--webhooks 50]
 */
import assert from 'node:assert/strict';
import { parseArgs } from 'node:util';
import { percentile } from '../support/percentile.ts';
import { compare } from '../webhooks/crowd/compare.ts';

const { values } = parseArgs({
  options: { turns: { type: 'string', default: '100' }, webhooks: { type: 'string', default: '50' } },
});
const { alone, crowded } = await compare({
  endpoints: 200,
  queued: 10_000,
  turns: Number(values.turns),
  webhooks: Number(values.webhooks),
});
const figures = (turns: readonly number[][]) => {
  const all = turns.flat();
  const ms = (part: number): number => Math.round(percentile(all, part) * 100) / 100;
  return { p50_ms: ms(0.5), p90_ms: ms(0.9), p99_ms: ms(0.99), max_ms: ms(1) };
};
const ratio = percentile(crowded.flat(), 0.99) / percentile(alone.flat(), 0.99);
process.stdout.write(
  `${JSON.stringify({
    webhooks: alone.flat().length,
    alone: figures(alone),
    crowded: figures(crowded),
    p99_ratio: Math.round(ratio * 100) / 100,
    node: process.version,
  })}\n`,
);
assert.ok(ratio < 2, 'the dead receivers delay the healthy one');
