/**
 * A commit whose answer is lost, for example because the connection to the database broke: it may have been made, and is
 * tried again.
 */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DatabaseUnavailable } from '../../../../src/foundation/db/away.ts';
import { recordingPlace, type RecordingPlaceOptions } from '../../../support/recording-place.ts';

/** The first `commits` commits are done, but report failure. */
function unheard(commits: number): RecordingPlaceOptions & { left(): number } {
  let left = commits;
  return {
    left: () => left,
    committed() {
      if (left === 0) return;
      left -= 1;
      throw new DatabaseUnavailable(new Error('Connection terminated unexpectedly'));
    },
  };
}

const OPEN = 'flags WRITE,CREATE,TRUNCATE mode 0666';

for (const commits of [1, 3]) {
  test(`${commits} of them: uploads are announced once`, async () => {
    const answers = unheard(commits);
    await using place = await recordingPlace(answers);
    place.write('a', 'first');
    place.write('b', 'other');
    place.logged(1, `open "/files/a" ${OPEN}`, 'close "/files/a" bytes read 0 written 5');
    place.logged(1, `open "/files/b" ${OPEN}`, 'close "/files/b" bytes read 0 written 5');
    await place.comesTo(['a 5', 'b 5'], ['a 5 uploaded', 'b 5 uploaded']);
    assert.equal(answers.left(), 0);
  });
}

test('one that is overwritten while it is in doubt was uploaded twice', async () => {
  await using place = await recordingPlace(unheard(1));
  place.write('a', 'first');
  place.logged(1, `open "/files/a" ${OPEN}`, 'close "/files/a" bytes read 0 written 5');
  await place.comes(['a 5'], ['a 5 uploaded']);
  place.write('a', 'another');
  place.logged(1, `open "/files/a" ${OPEN}`, 'close "/files/a" bytes read 0 written 7');
  await place.comesTo(['a 5', 'a 7'], ['a 7 uploaded']);
});

test('one that is removed while it is in doubt is announced once', async () => {
  await using place = await recordingPlace(unheard(1));
  place.write('a', 'first');
  place.logged(1, `open "/files/a" ${OPEN}`, 'close "/files/a" bytes read 0 written 5');
  await place.comes(['a 5'], ['a 5 uploaded']);
  rmSync(join(place.files, 'a'));
  place.logged(1, 'remove name "/files/a"');
  await place.comesTo(['a 5'], []);
});
