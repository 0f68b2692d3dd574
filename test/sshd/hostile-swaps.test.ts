/** Nothing outside a jail is touched or listed by scans and retention while its user swaps folders (beneath.ts). */
import { after, test } from 'node:test';
import { expectUntouched, swapFor } from '../torture/swapping.ts';

// A watch that chokidar could not end in time must not keep this process.
after(() => void setTimeout(() => process.exit(), 10_000).unref());

// `npm run torture -- swaps` does the same for a minute.
test('scans and retention stay inside while folders, files and links change places', async (t) => {
  // A busy machine needs longer for as much.
  for (let seconds = 3, isEnough = false; !isEnough; seconds *= 2) {
    const result = await swapFor(seconds);
    t.diagnostic(JSON.stringify(result));
    expectUntouched(result);
    isEnough = result.swaps > 500 && result.scans > 20 && result.starts > 0;
  }
});
