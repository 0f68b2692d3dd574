/** A file that changes while berth inspects it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

test('a file that is pointed at during the commit of a look, which it was changed after, is looked at again', async () => {
  let news: (() => void) | undefined;
  await using at = await recordingPlace({
    beforeCommit() {
      news?.();
      news = undefined;
    },
  });
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  news = () => {
    at.write('a', 'x'.repeat(9));
    at.touch('a');
  };
  await at.comesTo(['a 5'], ['a 5 uploaded']);
  await at.settles(['a 5', 'a 9'], ['a 9 uploaded']);
});

test('berth stops while the file of an upload is being synced: it is recorded before that', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  await at.parting.close();
  assert.deepEqual([await at.announced(), await at.rows()], [['a 5'], ['a 5 uploaded']]);
});
