/** The announced sizes of uploads whose files have changed since. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

/** A recorded upload of 5 bytes that has just got 7 more, by a handle that is open still. */
async function appended() {
  const at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  await at.comesTo(['a 5'], ['a 5 uploaded']);
  at.logged(1, 'open "a" flags WRITE,APPEND mode 0644');
  at.write('a', 'x'.repeat(12));
  return at;
}

test('appended to and closed, and overwritten before a look: the size of each is its own', async () => {
  await using at = await appended();
  at.logged(1, 'close "a" bytes read 0 written 7', `open "a" ${WRITE}`);
  at.write('a', 'x'.repeat(20));
  at.logged(1, 'close "a" bytes read 0 written 20');
  await at.comesTo(['a 5', 'a 12', 'a 20'], ['a 20 uploaded']);
});

test('appended to, closed and removed before a look: announced with the size that it had', async () => {
  await using at = await appended();
  at.logged(1, 'close "a" bytes read 0 written 7');
  rmSync(join(at.files, 'a'));
  at.logged(1, 'remove name "a"');
  await at.comesTo(['a 5', 'a 12'], []);
});
