/**
 * The disk does not store what a client has written. It reports that once: a second sync of the file succeeds, and proves
 * nothing.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FileSyncer } from '../../../../src/arrivals/uploads/disk/file-syncer.ts';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

/** The first sync of a file fails, as fdatasync(2) does when the kernel could not write its pages. */
class FailsOnce extends FileSyncer {
  syncs = 0;

  override async file(fd: number, size: number): Promise<void> {
    this.syncs += 1;
    if (this.syncs === 1) throw Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' });
    await super.file(fd, size);
  }
}

test('an upload whose sync has failed is partial, until it is sent again', async () => {
  const syncer = new FailsOnce({ isOn: true });
  await using place = await recordingPlace({ syncer });
  place.write('a', 'first');
  place.logged(1, `open "/files/a" ${WRITE}`, 'close "/files/a" bytes read 0 written 5');
  await place.comesTo([], ['a 5 partial']);
  place.write('a', 'second');
  place.logged(1, `open "/files/a" ${WRITE}`, 'close "/files/a" bytes read 0 written 6');
  await place.comesTo(['a 6'], ['a 6 uploaded']);
});

test('so is a file without an explanation', async () => {
  const syncer = new FailsOnce({ isOn: true });
  await using place = await recordingPlace({ syncer });
  place.write('a', 'first');
  place.touch('a');
  await place.comes([], ['a 5 partial']);
  await place.comesTo([], ['a 5 partial']);
  assert.equal(syncer.syncs, 1);
});
