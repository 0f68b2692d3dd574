/** What a crash of the machine makes doubtful. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SECOND } from '../../../../src/foundation/base/clock.ts';
import { Doubts } from '../../../../src/arrivals/uploads/record/doubts.ts';

/** In ms. */
const BOOT = 1_790_000_000_000;

for (const [what, file, isDoubted] of [
  ['not touched since the boot', { birthtimeMs: -9, mtimeMs: -9, ctimeMs: -9 }, true],
  ['renamed right after the boot', { birthtimeMs: -9, mtimeMs: -9, ctimeMs: 1000 }, true],
  ['renamed much later', { birthtimeMs: -9, mtimeMs: -9, ctimeMs: 100_000 }, false],
  ['written after the boot', { birthtimeMs: -9, mtimeMs: 900, ctimeMs: 1000 }, false],
  ['made after the boot, with older times', { birthtimeMs: 900, mtimeMs: -9, ctimeMs: 1000 }, false],
] as const) {
  test(`a file that was ${what} may be incomplete: ${isDoubted}`, () => {
    const doubts = new Doubts({ journal: { at: -Infinity }, boot: { at: BOOT * 1000, uptime: -Infinity } });
    const { birthtimeMs, mtimeMs, ctimeMs } = file;
    const times = { birthtimeMs: BOOT + birthtimeMs, mtimeMs: BOOT + mtimeMs, ctimeMs: BOOT + ctimeMs };
    assert.equal(doubts.has('d', times, BOOT * 1000 + 200 * SECOND), isDoubted);
  });
}
