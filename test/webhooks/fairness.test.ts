/** 200 dead receivers with 10,000 queued webhooks do not delay a healthy one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertWithin, rounds } from '../support/long.ts';
import { percentile } from '../support/percentile.ts';
import { compare } from './crowd/compare.ts';
import { SLOW_MS } from './crowd/dead-endpoints.ts';

/** `npm run torture -- receivers` takes more of them and holds the ratio of the slowest to 2; so few are too noisy for that. */
const SAMPLES = { turns: rounds(5, 10), webhooks: rounds(20, 40) };
/** Where dead receivers hold up others, these wait for seconds. A machine that does other things at once makes some ms of one. */
const RATIO = rounds(20, 4);
/** No more than a busy machine makes of less than one, in ms. */
const SOME_MS = rounds(100, 0);

test('webhooks for a healthy receiver pass 10,000 for refusing, silent, slow and unreachable ones', async () => {
  const { alone, crowded } = await compare({ endpoints: 200, queued: 10_000, ...SAMPLES });
  // The turn that the machine's other work disturbed least.
  const best = (turns: readonly number[][]): number => Math.min(...turns.map((turn) => percentile(turn, 0.5)));
  const [before, beside] = [best(alone), best(crowded)];
  assert.ok(beside < Math.max(RATIO * before, SOME_MS), `${beside} ms beside the dead ones, ${before} ms alone`);
  const late = percentile(crowded.flat(), 0.99);
  assertWithin(SLOW_MS, late, 'ms that some waited; a slow receiver holds its slot as long as the bound');
});
