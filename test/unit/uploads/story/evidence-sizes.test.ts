/** The announced sizes of uploads whose files have changed since. */
import { renameSync, rmSync, utimesSync } from 'node:fs';
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

test('a size is set by a name that a cut upload had before, and the log is late: the cut one stays partial', async () => {
  await using at = await recordingPlace();
  at.write('c', 'x'.repeat(20));
  // As if it had been written right before.
  utimesSync(join(at.files, 'c'), 2_000_000_000, 2_000_000_000);
  at.logged(1, `open "c" ${WRITE}`, 'close "c" bytes read 0 written 20', 'set "c" modtime 20330518-03:33:20');
  await at.comesTo(['c 20'], ['c 20 uploaded']);
  at.write('b', 'xxxxx');
  renameSync(join(at.files, 'c'), join(at.files, 'a'));
  at.logged(1, `open "a" ${WRITE}`, 'rename old "a" new "b"', 'rename old "c" new "a"', 'set "a" size 9');
  at.logged(1, 'forced close "a" bytes read 0 written 5', 'session closed for local user someone from [192.0.2.1]');
  await at.settles(['c 20'], ['a 20 uploaded', 'b 5 partial']);
  at.touch('b');
  await at.settles(['c 20'], ['a 20 uploaded', 'b 5 partial']);
});

test('a size is set through a handle, and the file is removed before a look: announced with that size', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  await at.comesTo(['a 5'], ['a 5 uploaded']);
  at.logged(1, 'open "a" flags WRITE mode 0644', 'set "a" size 12', 'close "a" bytes read 0 written 0');
  rmSync(join(at.files, 'a'));
  at.logged(1, 'remove name "a"');
  await at.comesTo(['a 5', 'a 12'], []);
});
