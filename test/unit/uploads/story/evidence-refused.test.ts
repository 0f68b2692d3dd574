/** Requests that sshd has refused, or may have: nothing is announced, or taken back, because of what the log only claims. */
import { mkdirSync, renameSync, rmSync, statSync, truncateSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import type { HeldPath } from '../../../../src/arrivals/uploads/processes.ts';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

const close = (name: string, written: number, how = ''): string =>
  `${how}close "${name}" bytes read 0 written ${written}`;
const APPEND = 'flags WRITE,APPEND,CREATE mode 0644';
const EXCLUSIVE = 'flags WRITE,CREATE,EXCL mode 0644';
const FAILURE = 'sent status Failure';

test('a size that was refused, for a name that a file gets right after: it is announced once', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, close('a', 5));
  await at.comes(['a 5'], ['a 5 uploaded']);
  renameSync(join(at.files, 'a'), join(at.files, 'b'));
  at.logged(1, 'set "b" size 7', 'sent status No such file', 'rename old "a" new "b"', 'stat name "b"');
  await at.comesTo(['a 5'], ['b 5 uploaded']);
});

test('a size was set, and another upload has that name when the line is read: it is announced once', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, close('a', 5));
  await at.comesTo(['a 5'], ['a 5 uploaded']);
  renameSync(join(at.files, 'a'), join(at.files, 'b'));
  at.logged(1, 'set "b" size 7', 'rename old "a" new "b"', 'stat name "b"');
  await at.comesTo(['a 5'], ['b 5 uploaded']);
});

test('a cut upload that is resumed, and sent again before it is looked at: its size is what the log has counted', async () => {
  await using at = await recordingPlace();
  at.write('a', 'x'.repeat(33));
  const refused = ['error: process_write: write "a": No space left on device', FAILURE];
  at.logged(1, `open "a" ${WRITE}`, ...refused, close('a', 21), `open "a" ${APPEND}`, close('a', 7));
  at.logged(1, `open "a" ${WRITE}`, close('a', 33));
  await at.comesTo(['a 28', 'a 33'], ['a 33 uploaded']);
});

test('a write is cut short right after the open, while the session has a file that had that name: partial', async () => {
  await using at = await recordingPlace();
  at.logged(1, `open "a" ${WRITE}`, 'remove name "a"');
  at.write('a', 'x'.repeat(19));
  at.logged(1, `open "a" ${WRITE}`, FAILURE, close('a', 0));
  at.gone(1);
  await at.comesTo([], ['a 19 partial']);
});

test('an open that may have been refused follows an upload at once, and writes: the log has counted how much was uploaded', async () => {
  let isOpen = true;
  await using at = await recordingPlace({ isHeld: () => isOpen });
  at.write('a', 'x'.repeat(9));
  at.logged(1, `open "a" ${WRITE}`, close('a', 5), `open "a" ${WRITE}`, FAILURE);
  await at.comes(['a 5'], ['a 5 uploaded']);
  isOpen = false;
  at.logged(1, close('a', 4, 'forced '), 'session closed for local user someone from [192.0.2.1]');
  await at.comesTo(['a 5'], ['a 9 partial']);
});

test('of several opens that may have been refused, a forced close is that of the oldest', async () => {
  await using at = await recordingPlace({ isHeld: () => true });
  at.write('a', 'x'.repeat(7));
  at.logged(1, `open "a" ${WRITE}`, `open "a" ${WRITE}`, FAILURE);
  await at.parting.drained();
  at.logged(1, close('a', 7), 'rename old "a" new "b"', 'stat name "b"');
  renameSync(join(at.files, 'a'), join(at.files, 'b'));
  at.write('a', 'y'.repeat(9));
  at.logged(1, `open "a" ${EXCLUSIVE}`, FAILURE, `open "a" ${APPEND}`, close('a', 9));
  at.logged(1, close('a', 3, 'forced '), 'session closed for local user someone from [192.0.2.1]');
  await at.comesTo(['a 9'], ['a 9 uploaded', 'b 7 partial']);
});

for (const [size, announced, state] of [
  [130, [], 'partial'],
  [100, ['a 100'], 'uploaded'],
] as const) {
  test(`it was renamed before it was looked at, after a refusal that may answer a write, and is of ${size} bytes: ${state}`, async () => {
    await using at = await recordingPlace();
    at.write('b', 'x'.repeat(size));
    at.logged(1, `open "a" ${WRITE}`, FAILURE, close('a', 100), 'rename old "a" new "b"', 'stat name "b"');
    await at.comesTo([...announced], [`b ${size} ${state}`]);
  });
}

test('and a file that is written over it takes its place', async () => {
  await using at = await recordingPlace();
  at.write('a', 'x'.repeat(50));
  at.logged(1, `open "a" ${WRITE}`, FAILURE, close('a', 100));
  at.logged(1, `open "a" ${WRITE}`, close('a', 50));
  await at.comesTo(['a 50'], ['a 50 uploaded']);
});

test('a file that is larger than a lost upload that may have been cut short is not taken for it', async () => {
  await using at = await recordingPlace();
  mkdirSync(join(at.files, 'd'));
  at.write('d/b', 'x'.repeat(200));
  at.logged(1, `open "d/b" ${WRITE}`, close('d/b', 200));
  await at.comes(['d/b 200'], ['d/b 200 uploaded']);
  at.write('a', 'x'.repeat(10));
  at.logged(1, `open "a" ${WRITE}`);
  await at.parting.drained();
  rmSync(join(at.files, 'a'));
  at.logged(1, FAILURE, close('a', 10), 'remove name "a"', 'rename old "d/b" new "c"', 'stat name "c"');
  renameSync(join(at.files, 'd/b'), join(at.files, 'c'));
  await at.comesTo(['d/b 200'], ['c 200 uploaded']);
});

test('of two files that have lost the name by which they were opened, the one without a name was closed', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`);
  await at.parting.drained();
  renameSync(join(at.files, 'a'), join(at.files, 'b'));
  at.logged(1, 'rename old "a" new "b"', 'stat name "b"');
  at.write('a', 'x'.repeat(9));
  at.logged(1, `open "a" ${WRITE}`);
  await at.parting.drained();
  rmSync(join(at.files, 'a'));
  at.logged(1, 'remove name "a"', close('a', 9), close('a', 5, 'forced '));
  await at.comesTo([], ['b 5 partial']);
});

test('a write is cut short while the folder has another name than at the open: partial', async () => {
  await using at = await recordingPlace();
  mkdirSync(join(at.files, 'd'));
  at.write('d/a', 'x'.repeat(19));
  at.logged(1, `open "d/a" ${WRITE}`);
  await at.parting.drained();
  renameSync(join(at.files, 'd'), join(at.files, 'f'));
  at.logged(2, 'posix-rename old "d" new "f"', 'stat name "f"');
  await at.parting.drained();
  at.logged(1, FAILURE, close('d/a', 0));
  at.gone(1);
  await at.comesTo([], ['f/a 19 partial']);
});

test('a file waits for the end of its session, while an open of it by another session is refused: announced', async () => {
  await using at = await recordingPlace({ isTemporary: (path) => path.endsWith('.part') });
  at.write('x.part', 'xxxxx');
  at.logged(2, `open "x.part" ${WRITE}`, close('x.part', 5));
  at.logged(1, `open "x.part" ${EXCLUSIVE}`);
  await at.comesTo([], ['x.part 5 waiting']);
  at.logged(2, 'session closed for local user someone from [192.0.2.1]');
  await at.comesTo([], ['x.part 5 waiting']);
  at.logged(1, FAILURE);
  await at.settles(['x.part 5'], ['x.part 5 uploaded']);
});

test('a cut upload is resumed and removed before it is looked at: announced with the size that the log has counted', async () => {
  await using at = await recordingPlace();
  const refused = ['error: process_write: write "a": No space left on device', FAILURE];
  at.logged(1, `open "a" ${WRITE}`, ...refused, close('a', 21), `open "a" ${APPEND}`, close('a', 7));
  at.logged(1, 'remove name "a"', 'stat name "a"');
  await at.comesTo(['a 28'], []);
});

test('a cut upload is moved with its folder, and its times are set, before it is looked at: partial', async () => {
  await using at = await recordingPlace();
  mkdirSync(join(at.files, 'e'));
  at.write('e/a', 'x'.repeat(7));
  utimesSync(join(at.files, 'e/a'), 1_500_000_000, 1_500_000_000);
  at.logged(1, `open "d/a" ${WRITE}`, close('d/a', 7, 'forced '), 'posix-rename old "d" new "e"', 'stat name "e"');
  await at.settles([], ['e/a 7 partial']);
});

test('an exclusive open is refused, the next one succeeds, and both have the file under a new name: one is closed', async () => {
  await using at = await recordingPlace();
  at.write('b', 'x'.repeat(9));
  at.logged(1, `open "a" ${EXCLUSIVE}`, FAILURE, `open "a" ${WRITE}`);
  at.logged(1, 'rename old "a" new "b"', 'stat name "b"', close('a', 5), 'set "b" size 9');
  await at.settles(['b 5', 'b 9'], ['b 9 uploaded']);
});

test('of two files that have lost the name by which they were opened, the one that is not held was closed', async () => {
  const held: HeldPath[] = [];
  await using at = await recordingPlace({ heldBy: () => held });
  at.write('a', 'xxx');
  at.logged(1, `open "a" ${WRITE}`);
  await at.parting.drained();
  renameSync(join(at.files, 'a'), join(at.files, 'b'));
  at.logged(1, 'rename old "a" new "b"', 'stat name "b"');
  await at.parting.drained();
  truncateSync(join(at.files, 'b'), 100_000);
  // The second file has been renamed and overwritten, and a third one has the name, when the open of the second is read.
  at.write('c', 'x'.repeat(9));
  at.write('a', 'xx');
  for (const path of ['a', 'b']) held.push({ path, inode: statSync(join(at.files, path)).ino });
  at.logged(1, `open "a" ${EXCLUSIVE}`, 'rename old "a" new "c"', 'stat name "c"', close('a', 5));
  at.logged(1, `open "c" ${WRITE}`, close('c', 9));
  await at.comesTo(['c 5', 'c 9'], ['c 9 uploaded']);
});

test('another file has the name of a file with two handles when a write is refused: the handle that is left is not of that', async () => {
  await using at = await recordingPlace({ heldBy: () => [{ path: 'a (deleted)', inode: 1 }] });
  at.write('b', 'x'.repeat(9));
  at.logged(1, `open "b" ${WRITE}`, close('b', 9));
  await at.comesTo(['b 9'], ['b 9 uploaded']);
  renameSync(join(at.files, 'b'), join(at.files, 'a'));
  at.logged(1, `open "a" ${WRITE}`, `open "a" ${WRITE}`, FAILURE, close('a', 0));
  await at.parting.drained();
  at.logged(1, 'rename old "b" new "a"', 'stat name "a"');
  at.logged(1, close('a', 5, 'forced '), 'session closed for local user someone from [192.0.2.1]');
  await at.settles(['b 9'], ['a 9 uploaded']);
});

test('a write may have been cut short, and the file is empty again when berth looks, as the log counts it: partial once found', async () => {
  await using at = await recordingPlace();
  at.write('b', 'x'.repeat(9));
  at.write('a', '');
  const later = Date.now() / 1000 + 1;
  utimesSync(join(at.files, 'a'), later, later);
  // Another file has the name already.
  at.logged(1, `open "a" ${WRITE}`, FAILURE, close('a', 0));
  await at.parting.drained();
  at.logged(1, 'rename old "a" new "b"', 'stat name "b"', `open "a" ${WRITE}`, close('a', 0));
  at.touch('b');
  await at.settles(['a 0'], ['a 0 uploaded', 'b 9 partial']);
});

test('two sessions write a file, and one of them has a request refused: what the other has written counts', async () => {
  await using at = await recordingPlace();
  at.write('a', 'x'.repeat(11));
  at.logged(1, `open "a" ${WRITE}`);
  at.logged(2, `open "a" ${WRITE}`, 'stat name "a"', FAILURE);
  at.logged(1, close('a', 11));
  at.logged(2, close('a', 10));
  await at.settles(['a 11'], ['a 11 uploaded']);
});

test('a refusal right after an open was not that of the open, and a size is set: what was set counts', async () => {
  await using at = await recordingPlace();
  at.write('a', 'x'.repeat(30));
  at.logged(1, `open "a" ${WRITE}`, FAILURE, 'set "a" size 30', close('a', 10));
  await at.comesTo(['a 30'], ['a 30 uploaded']);
});

test('a file with two handles lost its name before the second open was read, and is not renamed back: it is cut off', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`);
  await at.parting.drained();
  renameSync(join(at.files, 'a'), join(at.files, 'f'));
  at.write('a', 'x'.repeat(9));
  at.logged(1, `open "a" ${APPEND}`, close('a', 2), 'rename old "a" new "b"', `open "x" ${WRITE}`, close('x', 9));
  at.logged(1, 'posix-rename old "x" new "a"', 'stat name "a"', 'rename old "b" new "a"', FAILURE);
  at.logged(1, 'rename old "b" new "f"', 'stat name "f"');
  await at.parting.drained();
  at.gone(1);
  await at.settles(['x 9'], ['a 9 uploaded', 'f 5 partial']);
});

test('an exclusive open is refused, and berth finds a file there that the session has overwritten and is writing: announced', async () => {
  const held: HeldPath[] = [];
  await using at = await recordingPlace({ isHeld: () => held.length > 0, heldBy: () => held });
  at.write('b', 'x'.repeat(9));
  at.logged(1, `open "b" ${WRITE}`, close('b', 9));
  await at.comesTo(['b 9'], ['b 9 uploaded']);
  renameSync(join(at.files, 'b'), join(at.files, 'a'));
  held.push({ path: 'a', inode: statSync(join(at.files, 'a')).ino });
  at.logged(1, `open "a" ${EXCLUSIVE}`, FAILURE, `open "a" ${WRITE}`, close('a', 5));
  at.logged(1, 'posix-rename old "b" new "a"', 'open "a" flags WRITE mode 0644');
  await at.settles(['b 9', 'a 5'], ['a 9 uploaded']);
});

test('an exclusive open is refused, while the session holds a file that was renamed to that name and removed: announced', async () => {
  await using at = await recordingPlace({ heldBy: () => [{ path: 'a (deleted)', inode: 1 }] });
  at.write('c', 'x'.repeat(9));
  at.logged(1, `open "c" ${WRITE}`, close('c', 9));
  await at.comesTo(['c 9'], ['c 9 uploaded']);
  at.logged(1, `open "b" ${WRITE}`, 'rename old "b" new "a"', 'remove name "a"', 'stat name "a"');
  renameSync(join(at.files, 'c'), join(at.files, 'a'));
  at.logged(1, `open "a" ${EXCLUSIVE}`, FAILURE, `open "a" ${WRITE}`, close('a', 5));
  at.logged(1, 'posix-rename old "c" new "a"', 'stat name "a"');
  await at.settles(['c 9', 'a 5'], ['a 9 uploaded']);
});

test('a rename is refused, and what it asked for is done by a later one before the refusal is read: it was refused', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.write('b', 'x'.repeat(9));
  at.logged(1, `open "b" ${WRITE}`, close('b', 9), `open "a" ${WRITE}`, 'rename old "a" new "b"');
  await wait(100);
  renameSync(join(at.files, 'b'), join(at.files, 'c'));
  renameSync(join(at.files, 'a'), join(at.files, 'b'));
  at.logged(1, FAILURE, 'rename old "b" new "c"', 'rename old "a" new "b"', `open "c" ${WRITE}`, close('c', 9));
  at.logged(1, close('a', 5, 'forced '), 'session closed for local user someone from [192.0.2.1]');
  await at.parting.drained();
  at.touch('b');
  await at.settles(['b 9', 'c 9'], ['b 5 partial', 'c 9 uploaded']);
});

test('a write was cut short, and the session still has an empty file open under that old name: the closed file is partial', async () => {
  let held: HeldPath[] = [];
  await using at = await recordingPlace({ heldBy: () => held });
  at.write('b', '');
  at.logged(1, `open "a" ${WRITE}`, 'rename old "a" new "b"', 'stat name "b"');
  held = [{ path: 'b', inode: statSync(join(at.files, 'b')).ino }];
  await at.parting.drained();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${EXCLUSIVE}`, FAILURE, close('a', 0));
  await at.comes([], ['a 5 partial']);
});

test('an upload was renamed, and its lines are read when another one has its name: a refused rename of it changes nothing', async () => {
  await using at = await recordingPlace();
  at.write('c', 'xxxxx');
  at.write('a', 'x'.repeat(9));
  at.logged(1, `open "a" ${WRITE}`, 'rename old "a" new "b"', 'stat name "b"', close('a', 5));
  at.logged(1, `open "a" ${WRITE}`, close('a', 9));
  at.logged(1, 'rename old "b" new "a"', FAILURE, 'rename old "b" new "c"', 'stat name "c"');
  await at.settles(['b 5', 'a 9'], ['a 9 uploaded', 'c 5 uploaded']);
});

test('a file at the path of a partial one, of the same size and older than its end, is no new upload: another was taken for it', async () => {
  await using at = await recordingPlace();
  mkdirSync(join(at.files, 'e'));
  at.write('e/c', 'xxxxx');
  await wait(20);
  mkdirSync(join(at.files, 'd'));
  at.write('d/c', 'yyyyy');
  at.logged(1, `open "d/c" ${WRITE}`, close('d/c', 5, 'forced '));
  await at.comesTo([], ['d/c 5 partial']);
  rmSync(join(at.files, 'd'), { recursive: true });
  renameSync(join(at.files, 'e'), join(at.files, 'd'));
  at.touch('d/c');
  await at.stays([], ['d/c 5 partial']);
});

test('an open may have been refused, and its file is renamed before berth reads the line: the kernel is asked about that file', async () => {
  let isHeld = true;
  await using at = await recordingPlace({ isHeld: () => isHeld });
  at.write('b', 'xxxxx');
  at.logged(
    1,
    `open "a" ${WRITE}`,
    `open "a" ${WRITE}`,
    FAILURE,
    close('a', 0),
    'rename old "a" new "b"',
    'stat name "b"',
  );
  await at.comesTo([], []);
  isHeld = false;
  at.write('a', 'x'.repeat(9));
  at.logged(1, `open "a" ${WRITE}`, close('a', 9), close('a', 5, 'forced '));
  await at.comes(['a 9'], ['a 9 uploaded', 'b 5 partial']);
});

test('an exclusive open and another may have been refused, and the connection breaks: the upload in between is announced', async () => {
  await using at = await recordingPlace();
  at.write('a', 'x'.repeat(9));
  at.logged(1, 'open "a" flags WRITE,CREATE,EXCL mode 0644', 'sent status Failure');
  at.logged(1, `open "a" ${WRITE}`, close('a', 5), 'open "a" flags WRITE mode 0644');
  at.logged(1, `open "a" ${WRITE}`, 'sent status Failure', close('a', 0));
  at.logged(1, close('a', 2, 'forced '), 'session closed for local user someone from [192.0.2.1]');
  await at.settles(['a 5'], ['a 9 partial']);
});
