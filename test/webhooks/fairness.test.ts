/** 200 dead receivers with 10,000 webhooks queued: a healthy one does not feel them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { percentile } from '../support/percentile.ts';
import { compare } from './crowd/compare.ts';

/** `npm run torture -- receivers` takes more of them and holds the ratio to 2; so few are too noisy for that. */
const SAMPLES = { turns: 10, webhooks: 40 };
const RATIO = 4;
/** In ms. A slot of a dead receiver would be free after 5,000. */
const SLACK = 20;

test('webhooks for a healthy receiver pass 10,000 for refusing, silent, slow and unreachable ones', async () => {
  const { alone, crowded } = await compare({ endpoints: 200, queued: 10_000, ...SAMPLES });
  for (const part of [0.5, 0.99]) {
    const [before, beside] = [percentile(alone.flat(), part), percentile(crowded.flat(), part)];
    assert.ok(beside < RATIO * before + SLACK, `${part}: ${beside} ms beside the dead ones, ${before} ms alone`);
  }
});
