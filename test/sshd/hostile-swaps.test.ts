/** Root's housekeeping against a user who swaps folders all the time; `npm run torture -- swaps` does it for a minute. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { swapFor } from '../torture/swapping.ts';

test('while folders change places with files and links, nothing outside is touched or listed', async () => {
  const { swaps, renames, starts, ...outside } = await swapFor(5);
  assert.ok(swaps > 1000 && renames > 100 && starts > 0, `${swaps} swaps, ${renames} renames, ${starts} starts`);
  assert.deepEqual(outside, { seconds: 5, outside_missing: 0, outside_changed: 0, outside_told: 0 });
});
