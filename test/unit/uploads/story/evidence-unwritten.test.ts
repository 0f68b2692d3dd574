/** Handles that may have made a file but wrote nothing, as when a client opens a file to append to it. */
import { test } from 'node:test';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

const APPEND = 'flags WRITE,APPEND,CREATE mode 0644';

for (const isRecorded of [true, false]) {
  test(`a handle that wrote nothing opens an upload that is ${isRecorded ? 'recorded' : 'yet to be looked at'}: it is not announced again`, async () => {
    await using at = await recordingPlace();
    at.write('a', 'xxxxx');
    at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
    if (isRecorded) await at.comesTo(['a 5'], ['a 5 uploaded']);
    at.logged(1, `open "a" ${APPEND}`, 'close "a" bytes read 0 written 0');
    await at.comesTo(['a 5'], ['a 5 uploaded']);
  });
}

test('a handle that wrote nothing made the file: an empty upload', async () => {
  await using at = await recordingPlace();
  at.write('a', '');
  at.logged(1, `open "a" ${APPEND}`, 'close "a" bytes read 0 written 0');
  await at.comesTo(['a 0'], ['a 0 uploaded']);
});

test('a handle that wrote nothing closes an upload that was cut off when all had been written: it is complete', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'forced close "a" bytes read 0 written 5');
  await at.comesTo([], ['a 5 partial']);
  at.logged(2, `open "a" ${APPEND}`, 'close "a" bytes read 0 written 0');
  await at.comesTo(['a 5'], ['a 5 uploaded']);
});

for (const isLast of [true, false]) {
  test(`beside one that writes the file and is closed ${isLast ? 'after' : 'before'} it: one upload`, async () => {
    await using at = await recordingPlace();
    at.write('a', 'xxxxx');
    at.logged(1, `open "a" ${WRITE}`);
    at.logged(2, `open "a" ${APPEND}`);
    if (isLast) at.logged(2, 'close "a" bytes read 0 written 0');
    at.logged(1, 'close "a" bytes read 0 written 5');
    if (!isLast) at.logged(2, 'close "a" bytes read 0 written 0');
    await at.comesTo(['a 5'], ['a 5 uploaded']);
  });
}
