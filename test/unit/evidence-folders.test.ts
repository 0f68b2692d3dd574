/** What becomes of the row of a file whose name a folder takes. */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { recordingPlace } from '../support/recording-place.ts';

const WRITE = 'flags WRITE,CREATE,TRUNCATE mode 0644';

test('a folder takes the name of a cut upload that is removed, and another one at once: no row stays', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.told(1, `open "a" ${WRITE}`, 'forced close "a" bytes read 0 written 5');
  await at.comesTo([], ['a 5 partial']);
  rmSync(join(at.files, 'a'));
  mkdirSync(join(at.files, 'b'));
  at.told(2, 'remove name "a"', 'mkdir name "a" mode 0777', 'rename old "a" new "b"');
  await at.comesTo([], []);
});
