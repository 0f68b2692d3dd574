/** Which lost upload a file is of. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Ending } from '../../../../src/arrivals/uploads/story/operations.ts';
import { Lost } from '../../../../src/arrivals/uploads/story/lost.ts';

const AT = 1_790_000_000_000_000;

const CUT_OFF: Ending = {
  isComplete: false,
  isRefused: false,
  at: AT,
  by: { pid: 1, address: '' },
  openedAt: AT - 5000,
  bytes: undefined,
  written: 0,
  isUnwritten: false,
  isReserved: false,
  isDoubted: false,
  isUnproven: false,
  inode: 7,
  bornMs: (AT - 5000) / 1000,
  order: 1,
};

for (const [what, bornAt, mtime, isIt] of [
  ['of the same birth', AT - 5000, AT - 1000, true],
  ['of the same birth, whose times a client has set since', AT - 5000, 1_500_000_000_000_000, true],
  ['that was born later', AT - 2000, AT - 1000, false],
] as const) {
  test(`a file with the inode of a cut upload, ${what}: ${isIt ? 'it' : 'another one'}`, () => {
    const lost = new Lost();
    lost.addEnding('d', CUT_OFF);
    const stat = { inode: 7, size_bytes: 5, mtime, ctime: AT, changedAt: AT, bornAt };
    assert.equal(lost.endingOf('d', 'a', stat, undefined, []), isIt ? CUT_OFF : undefined);
  });
}
