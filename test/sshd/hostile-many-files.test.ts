/** A user with thousands of files, one that grows, and a session that stays open do not hold up the API. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crowd } from '../torture/crowded.ts';

/**
 * Generous, since other tests run beside this one: `npm run torture -- many-files` does the same with 200,000 files and
 * holds 50 ms.
 */
const MOST = 500;

test('requests are answered while thousands of files are found, moved and removed', async (t) => {
  for (const { phase, seconds, took, p99 } of await crowd({ files: 4000, folder: 2000, uploads: 50, calm: 0 })) {
    t.diagnostic(`${phase}, ${seconds} s, ${p99} ms: ${JSON.stringify(took)}`);
    assert.ok(p99 < MOST, `${phase}: p99 ${p99} ms`);
  }
});
