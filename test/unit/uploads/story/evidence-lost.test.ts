/** Files about which the log lacks lines. */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, renameSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../../../src/foundation/base/clock.ts';
import { setImmediate, setTimeout as wait } from 'node:timers/promises';
import { until } from '../../../support/poll.ts';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

test('the line of a close was lost: nobody holds the file by the kernel’s word, so it is found', async () => {
  await using at = await recordingPlace({ isHeld: () => false });
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`);
  at.touch('a');
  await at.settles(['a 5'], ['a 5 uploaded']);
});

test('the line of a close was lost, and a process holds the file open: it is left alone', async () => {
  await using at = await recordingPlace({ isHeld: () => true });
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`);
  at.touch('a');
  await at.stays([], []);
});

test('with the clock an hour behind the file’s times, scans without a pause do not put it off for ever', async () => {
  await using at = await recordingPlace({ hoursAhead: -1 });
  at.write('a', 'xxxxx');
  const scans = setInterval(() => at.touch('a'), 100);
  try {
    await at.settles(['a 5'], ['a 5 uploaded']);
  } finally {
    clearInterval(scans);
  }
});

test('a folder takes the name of one that was renamed: no row is lost', async () => {
  await using at = await recordingPlace();
  for (const folder of ['d', 'e']) mkdirSync(join(at.files, folder));
  for (const [path, size] of [
    ['d/a', 5],
    ['e/a', 7],
  ] as const) {
    at.write(path, 'x'.repeat(size));
    at.logged(1, `open "${path}" ${WRITE}`, `close "${path}" bytes read 0 written ${size}`);
  }
  await at.comesTo(['d/a 5', 'e/a 7'], ['d/a 5 uploaded', 'e/a 7 uploaded']);
  at.touch('e');
  for (const [from, to] of [
    ['d', 'e/g'],
    ['e', 'd'],
  ] as const) {
    renameSync(join(at.files, from), join(at.files, to));
    at.logged(1, `rename old "${from}" new "${to}"`);
  }
  at.touch('d/g/a');
  await at.settles(['d/a 5', 'e/a 7'], ['d/a 7 uploaded', 'd/g/a 5 uploaded']);
});

test('a folder is not renamed onto the one above it: what is known of the files in that one stays', async () => {
  await using at = await recordingPlace();
  mkdirSync(join(at.files, 'd', 'g'), { recursive: true });
  at.write('d/a', 'xxxxx');
  at.logged(1, `open "d/a" ${WRITE}`, 'close "d/a" bytes read 0 written 5');
  await at.comesTo(['d/a 5'], ['d/a 5 uploaded']);
  truncateSync(join(at.files, 'd', 'a'), 7);
  at.logged(1, 'set "d/a" size 7', 'rename old "d/g" new "d"', 'sent status Failure');
  await at.settles(['d/a 5', 'd/a 7'], ['d/a 7 uploaded']);
  at.gone(1);
  await at.parting.drained();
  assert.deepEqual(
    at.parting.compared,
    [at.jail.id],
    'the directory is compared with the disk when the session has ended',
  );
});

test('an upload is overwritten before its file was seen: another file as empty as it was is not taken for it', async () => {
  await using at = await recordingPlace();
  const open = `open "heard" ${WRITE}`;
  at.write('unheard', '');
  at.logged(1);
  at.write('heard', 'x');
  for (const line of [open, 'close "heard" bytes read 0 written 0', open])
    at.wasLogged(line, Date.now() * 1000, [null]);
  await until('the empty upload is recorded', async () => (await at.rows()).length > 0);
  at.touch('unheard');
  await wait(100);
  at.logged(1, 'close "heard" bytes read 0 written 1');
  await at.settles(['heard 0', 'heard 1', 'unheard 0'], ['heard 1 uploaded', 'unheard 0 uploaded']);
});

test('a size was set, and berth forgets that before it inspects the file: still a new upload', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  await at.comesTo(['a 5'], ['a 5 uploaded']);
  truncateSync(join(at.files, 'a'), 7);
  at.logged(1, 'set "a" size 7');
  await setImmediate();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3200); // the machine is that slow
  await at.settles(['a 5', 'a 7'], ['a 7 uploaded']);
});

test('a size was set, and berth forgets that before it reads the log: a new upload under the new name', async () => {
  await using at = await recordingPlace({ lag: 3500 });
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  await at.comesTo(['a 5'], ['a 5 uploaded']);
  truncateSync(join(at.files, 'a'), 7);
  renameSync(join(at.files, 'a'), join(at.files, 'b'));
  at.logged(1, 'set "a" size 7', 'rename old "a" new "b"');
  await at.settles(['a 5', 'b 7'], ['b 7 uploaded']);
});

test('sweeps that find the same file without its session again and again do not put it off', async () => {
  await using at = await recordingPlace({ isTemporary: (path) => path.endsWith('.part') });
  at.write('a.part', 'xxxxx');
  at.logged(1, `open "a.part" ${WRITE}`, 'close "a.part" bytes read 0 written 5');
  await at.comesTo([], ['a.part 5 waiting']);
  at.logged(1, 'remove name "a.part"'); // its refusal is not heard
  at.gone(1);
  const sweep = () => at.touch('a.part');
  const sweeps = setInterval(sweep, 10);
  try {
    await until('it is announced', async () => (await at.announced()).length === 1);
  } finally {
    clearInterval(sweeps);
  }
});

test('the log is so late that the disk shows the next upload already, under its final name: that one is recorded', async () => {
  await using at = await recordingPlace();
  at.logged(1, `open "a" ${WRITE}`, 'forced close "a" bytes read 0 written 3');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50); // before anybody looks
  at.write('a', 'x'.repeat(20));
  await at.comesTo([], ['a 20 partial']);
  renameSync(join(at.files, 'a'), join(at.files, 'b'));
  at.touch('b');
  await at.parting.drained();
  at.logged(2, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 20', 'rename old "a" new "b"');
  await at.settles(['a 20'], ['b 20 uploaded']);
});

test('closed by a handle whose open was not logged, and overwritten before berth looks: its size is what the handle wrote', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, 'close "a" bytes read 0 written 5', `open "a" ${WRITE}`);
  at.write('a', 'x'.repeat(20));
  at.logged(1, 'close "a" bytes read 0 written 20');
  await at.comesTo(['a 5', 'a 20'], ['a 20 uploaded']);
});

test('closed by a handle whose open was not logged, while the next one writes: its size is what the handle wrote', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, 'close "a" bytes read 0 written 5', `open "a" ${WRITE}`);
  at.write('a', 'x'.repeat(12)); // so far
  await at.comesTo(['a 5'], ['a 5 uploaded']);
  at.write('a', 'x'.repeat(20));
  at.logged(1, 'close "a" bytes read 0 written 20');
  await at.settles(['a 5', 'a 20'], ['a 20 uploaded']);
});

for (const [firstOpen, first] of [
  ['heard', [`open "a" ${WRITE}`]],
  ['not heard', []],
] as const) {
  test(`overwritten at once, and the second close was lost: it is found, and not taken for the first, whose open was ${firstOpen}`, async () => {
    await using at = await recordingPlace();
    at.write('a', 'xxxxx');
    at.logged(1, ...first, 'close "a" bytes read 0 written 5', `open "a" ${WRITE}`);
    at.write('a', 'x'.repeat(20));
    await at.comesTo(['a 5'], ['a 5 uploaded']);
    at.touch('a');
    await at.settles(['a 5', 'a 20'], ['a 20 uploaded']);
  });
}

test('a handle whose open was not logged continues an upload: its size is that of the file', async () => {
  await using at = await recordingPlace();
  at.write('a', 'x'.repeat(12));
  at.logged(1, 'close "a" bytes read 0 written 5');
  await at.settles(['a 12'], ['a 12 uploaded']);
});

test('the kernel shows a handle, and then the log its open, which was late: it is one, and ends with its close', async () => {
  await using at = await recordingPlace({ isHeld: () => true });
  at.write('a', 'xxxxx');
  const inode = statSync(join(at.files, 'a')).ino;
  at.parting.recorder
    .storyOf(at.jail)
    .begin({ by: { pid: 1, address: '' }, openedAt: undefined, born: undefined }, systemClock().now(), [
      { path: 'a', inode },
    ]);
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  await at.settles(['a 5'], ['a 5 uploaded']);
});

test('a folder is renamed while a file in it whose size was set is overwritten: what is then dropped is no upload', async () => {
  let isHeld = false;
  await using at = await recordingPlace({ isHeld: () => isHeld });
  mkdirSync(join(at.files, 'd'));
  at.write('d/a', 'xxxxx');
  at.logged(1, `open "d/a" ${WRITE}`, 'close "d/a" bytes read 0 written 5');
  await at.comesTo(['d/a 5'], ['d/a 5 uploaded']);
  truncateSync(join(at.files, 'd/a'), 7);
  // The kernel does the second before the first.
  at.logged(1, 'set "d/a" size 7');
  at.logged(2, 'rename old "d" new "e"');
  renameSync(join(at.files, 'd'), join(at.files, 'e'));
  at.logged(1, `open "d/a" ${WRITE}`);
  isHeld = true;
  at.write('e/a', 'x'.repeat(12));
  at.touch('e/a');
  await wait(1000);
  isHeld = false;
  at.logged(1, 'forced close "d/a" bytes read 0 written 12');
  await at.settles(['d/a 5'], ['e/a 12 partial']);
});

test('a file is touched whose name begins like one that the log cut off: it is not announced again', async () => {
  await using at = await recordingPlace();
  const folder = `${'d'.repeat(250)}/${'e'.repeat(50)}`;
  mkdirSync(join(at.files, folder), { recursive: true });
  const path = `${folder}/${'n'.repeat(220)}-a`;
  at.write(path, 'xxxxx');
  at.touch(path);
  await at.settles([`${path} 5`], [`${path} 5 uploaded`]);
  for (const line of [`open "${path}`, `close "${path}`]) at.logged(2, line.slice(0, 500));
  chmodSync(join(at.files, path), 0o640);
  at.touch(path);
  await wait(3000);
  await at.settles([`${path} 5`], [`${path} 5 uploaded`]);
});

test('a process has died with a file open that has another name than the log says: partial once that is noticed', async () => {
  await using at = await recordingPlace({ isDead: () => true });
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`);
  await at.parting.drained();
  renameSync(join(at.files, 'a'), join(at.files, 'b'));
  at.touch('b');
  await at.stays([], []);
  at.gone(1);
  at.touch('b');
  await at.settles([], ['b 5 partial']);
});

for (const [what, gone] of [
  ['removed', 'remove name "a"'],
  ['replaced', 'posix-rename old "b" new "a"'],
] as const)
  test(`a process dies while it writes a file, which is sent again as a whole and ${what} before that is noticed: announced`, async () => {
    await using at = await recordingPlace({ isDead: () => true });
    at.logged(1, `open "a" ${WRITE}`);
    at.logged(2, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5', gone, 'stat name "a"');
    await at.comes(['a 5'], []);
    at.gone(1);
    await at.settles(['a 5'], []);
  });

test('a file is copied into a folder, and a session dies that has opened one of that name in another folder: the copy is announced', async () => {
  await using at = await recordingPlace();
  for (const folder of ['d', 'hand']) mkdirSync(join(at.files, folder));
  await wait(20);
  at.write('hand/a', 'xxxxx');
  at.logged(1, `open "d/a" ${WRITE}`, 'stat name "b"');
  at.gone(1);
  await at.parting.drained();
  at.touch('hand/a');
  await at.settles(['hand/a 5'], ['hand/a 5 uploaded']);
});

test('a partial file is renamed, and another one gets its name, before either is looked at: the partial one is not announced', async () => {
  await using at = await recordingPlace();
  at.write('a', 'half');
  at.logged(1, `open "a" ${WRITE}`);
  at.gone(1);
  await at.comes([], ['a 4 partial']);
  renameSync(join(at.files, 'a'), join(at.files, 'b'));
  at.write('a', 'another');
  at.touch('a');
  await at.comes(['a 7'], ['a 7 uploaded']);
  at.touch('b');
  await at.comesTo(['a 7'], ['a 7 uploaded', 'b 4 partial']);
});
