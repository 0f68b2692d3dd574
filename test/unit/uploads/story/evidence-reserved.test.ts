/**
 * A client that uploads one file over several connections makes the file first, sets its size, closes it, and then writes
 * parts through handles of their own: rclone since 1.76, with `--inplace` under the final name.
 */
import { closeSync, ftruncateSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

type Place = Awaited<ReturnType<typeof recordingPlace>>;

const PART = 'open "a" flags WRITE mode 0644';

/** The first connection makes the file, with room for 10 bytes. */
function reserve(at: Place): void {
  const fd = openSync(join(at.files, 'a'), 'w');
  ftruncateSync(fd, 10);
  closeSync(fd);
  at.logged(1, `open "a" ${WRITE}`, 'set "a" size 10', 'close "a" bytes read 0 written 0');
}

test('room was made, and other connections write the parts: announced once, when the last is closed', async () => {
  await using at = await recordingPlace();
  reserve(at);
  await at.comesTo([], ['a 10 waiting']);
  at.logged(2, PART);
  at.logged(3, PART);
  at.write('a', 'x'.repeat(10));
  at.logged(2, 'close "a" bytes read 0 written 5');
  await at.comesTo([], ['a 10 waiting']);
  at.logged(3, 'close "a" bytes read 0 written 5');
  await at.settles(['a 10'], ['a 10 uploaded']);
});

test('the first connection ends meanwhile: the file waits for the others', async () => {
  await using at = await recordingPlace();
  reserve(at);
  await at.comesTo([], ['a 10 waiting']);
  at.logged(2, PART);
  at.logged(1, 'session closed for local user u from [127.0.0.1]');
  await at.comesTo([], ['a 10 waiting']);
  at.touch('a');
  await at.comesTo([], ['a 10 waiting']);
  at.write('a', 'x'.repeat(10));
  at.logged(2, 'close "a" bytes read 0 written 10');
  await at.settles(['a 10'], ['a 10 uploaded']);
});

test('no further write: announced when the session ends', async () => {
  await using at = await recordingPlace();
  reserve(at);
  await at.comesTo([], ['a 10 waiting']);
  at.logged(1, 'session closed for local user u from [127.0.0.1]');
  await at.settles(['a 10'], ['a 10 uploaded']);
});
