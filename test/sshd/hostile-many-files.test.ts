/** A user with thousands of files, one that grows, and a session that stays open do not hold up the API. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CALM, crowd } from '../torture/crowded.ts';
import { rounds } from '../support/long.ts';

/**
 * How many times as long requests may take as when nothing but the session goes on. Generous, since other tests run beside
 * this one: `npm run torture -- many-files` does the same with 200,000 files and holds 50 ms.
 */
const MOST = 50;

test('requests are answered while thousands of files are found, moved and removed', async (t) => {
  const phases = await crowd({ files: rounds(1000, 4000), folder: rounds(500, 2000), uploads: 50, calm: 2000 });
  const calm = phases.find(({ phase }) => phase === CALM)?.p99 ?? 0;
  for (const { phase, seconds, took, p99 } of phases) {
    t.diagnostic(`${phase}, ${seconds} s, ${p99} ms: ${JSON.stringify(took)}`);
    assert.ok(p99 < MOST * calm, `${phase}: p99 ${p99} ms, ${calm} ms when it is calm`);
  }
});
