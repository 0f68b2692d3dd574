/** What counts as a full disk. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isFull } from '../../../src/foundation/base/errors.ts';
import { refusingWhenFull } from '../../../src/rules/directories/storage-full.ts';

test('a write over a quota of the kernel is refused as on a full disk, though libuv has no name for its error', async () => {
  // As Node 24 throws it on an ext4 with usrquota.
  const error = Object.assign(new Error('Unknown system error -122: Unknown system error -122, write'), {
    errno: -122,
    code: 'Unknown system error -122',
    syscall: 'write',
  });
  assert.equal(isFull(error), true);
  await assert.rejects(
    refusingWhenFull(() => Promise.reject(error)),
    { code: 'storage_full' },
  );
  assert.equal(isFull(Object.assign(new Error('EIO: i/o error, write'), { errno: -5, code: 'EIO' })), false);
  for (const other of [undefined, null, '-122', new Error('-122')]) assert.equal(isFull(other), false);
});
