/** Nothing outside a jail is touched or listed by scans and retention while its user swaps folders (beneath.ts). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { expectUntouched, swapFor } from '../torture/swapping.ts';

// `npm run torture -- swaps` does the same for a minute.
test('scans and retention stay inside while folders, files and links change places', async (t) => {
  const result = await swapFor(3);
  t.diagnostic(JSON.stringify(result));
  assert.ok(result.swaps > 500 && result.scans > 20 && result.starts > 0);
  expectUntouched(result);
});
