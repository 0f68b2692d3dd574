/** Opens without writes, opens of parts, and opens that sshd has refused, or may have. */
import { chmodSync, closeSync, ftruncateSync, openSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { observationOf } from '../../../../src/arrivals/uploads/log/line-owners.ts';
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

// A client that uploads one file over several connections makes the file first, sets its size, closes it, and then
// writes parts through handles of their own: rclone since 1.76, with `--inplace` under the final name.

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

// Opens that sshd has refused, or may have, and processes that die then.

const close = (name: string, written: number, how = ''): string =>
  `${how}close "${name}" bytes read 0 written ${written}`;
const EXCLUSIVE = 'flags WRITE,CREATE,EXCL mode 0644';
const FAILURE = 'sent status Failure';

for (const flags of [EXCLUSIVE, 'flags WRITE mode 0644'])
  test(`a file is written over, and an open of it is refused at once (${flags}): it is announced with its own size`, async () => {
    let isShown = true;
    await using at = await recordingPlace({ isHeld: () => isShown, heldBy: () => [] });
    at.write('a', 'xxxxx');
    at.logged(1, `open "a" ${WRITE}`, close('a', 5));
    await at.comes(['a 5'], ['a 5 uploaded']);
    at.write('a', 'yyyyy');
    at.logged(1, 'open "a" flags WRITE mode 0644', close('a', 5), `open "a" ${flags}`, FAILURE);
    await wait(50);
    isShown = false;
    await at.comesTo(['a 5', 'a 5'], ['a 5 uploaded']);
  });

for (const flags of [EXCLUSIVE, WRITE])
  test(`an open of an upload may have been refused (${flags}), and its process dies: the file is complete`, async () => {
    await using at = await recordingPlace({ isDead: () => true });
    at.write('a', 'whole');
    at.logged(1, `open "a" ${WRITE}`, close('a', 5), `open "a" ${flags}`, FAILURE);
    await at.comes(['a 5'], ['a 5 uploaded']);
    at.gone(1);
    await at.stays(['a 5'], ['a 5 uploaded']);
  });

for (const [which, age] of [
  ['a moment old', 0],
  ['older than the open', 120_000],
] as const)
  test(`an exclusive open of a file that is ${which} was refused, its process dies, and a client changes its mode: complete`, async () => {
    await using at = await recordingPlace({ isDead: () => true });
    at.write('a', 'whole');
    at.logged(1, `open "a" ${WRITE}`, close('a', 5));
    if (age > 0) await at.comes(['a 5'], ['a 5 uploaded']);
    const found = statSync(join(at.files, 'a'));
    const seen = [observationOf(Object.assign(found, { birthtimeMs: found.birthtimeMs - age }))];
    at.wasLogged(`open "a" ${EXCLUSIVE}`, Date.now() * 1000, seen);
    at.wasLogged(FAILURE, Date.now() * 1000, seen);
    await at.comes(['a 5'], ['a 5 uploaded']);
    at.gone(1);
    chmodSync(join(at.files, 'a'), 0o600);
    at.touch('a');
    await at.stays(['a 5'], ['a 5 uploaded']);
  });

test('an upload was not seen when it began, an exclusive open of it was refused, and its process dies: the file is complete', async () => {
  await using at = await recordingPlace({ isDead: () => true });
  at.wasLogged(`open "a" ${WRITE}`, Date.now() * 1000, [null]);
  at.write('a', 'written at an offset');
  at.wasLogged(close('a', 5), Date.now() * 1000);
  const seen = [observationOf(statSync(join(at.files, 'a')))];
  at.wasLogged(`open "a" ${EXCLUSIVE}`, Date.now() * 1000, seen);
  at.wasLogged(FAILURE, Date.now() * 1000, seen);
  at.gone(1);
  await at.stays(['a 20'], ['a 20 uploaded']);
});

test('a process dies that has opened a file after all: what it has left is not announced before its end is known, nor after', async () => {
  let isOpen = true;
  await using at = await recordingPlace({ isHeld: () => isOpen, isDead: () => true });
  at.write('a', 'half');
  at.logged(1, `open "a" ${WRITE}`, FAILURE);
  await at.parting.drained();
  isOpen = false;
  at.touch('a');
  await wait(3000);
  at.gone(1);
  at.touch('a');
  await at.settles([], ['a 4 partial']);
});

test('the same, right after an upload of that name: the upload is announced as the log has counted it, and the rest is partial', async () => {
  let isOpen = true;
  await using at = await recordingPlace({ isHeld: () => isOpen });
  at.write('a', 'half');
  at.logged(1, `open "a" ${WRITE}`, close('a', 5), `open "a" ${WRITE}`, FAILURE);
  await at.comes(['a 5'], ['a 5 uploaded']);
  isOpen = false;
  at.gone(1);
  at.touch('a');
  await at.settles(['a 5'], ['a 4 partial']);
});

test('the same, and the process dies before berth has recorded the upload', async () => {
  await using at = await recordingPlace({ isDead: () => true });
  at.write('a', 'half');
  at.logged(1, `open "a" ${WRITE}`, close('a', 5), `open "a" ${WRITE}`, FAILURE);
  at.gone(1);
  await at.comes(['a 5'], ['a 5 uploaded']);
  at.touch('a');
  await at.settles(['a 5'], ['a 4 partial']);
});

for (const flags of [EXCLUSIVE, WRITE])
  test(`a new file is half written when the line of its open is read (${flags}), and its process dies: partial`, async () => {
    await using at = await recordingPlace({ isDead: () => true });
    at.write('a', 'half');
    await wait(600);
    at.logged(1, `open "a" ${flags}`, FAILURE);
    at.gone(1);
    await at.stays([], ['a 4 partial']);
  });

for (const ending of ['closed', 'killed'] as const)
  test(`an upload is renamed in a line that the log has cut off, and the next one of that name is cut short and ${ending}: partial`, async () => {
    await using at = await recordingPlace({ isDead: () => ending === 'killed' });
    const [before, after] = ['p'.repeat(245), 'q'.repeat(250)];
    at.write(after, 'whole');
    at.write(before, 'half');
    await wait(600);
    const seen = [observationOf(statSync(join(at.files, before)))];
    const rename = `posix-rename old "${before}" new "${after}"`.slice(0, 500);
    for (const line of [
      `open "${before}" ${EXCLUSIVE}`,
      close(before, 5),
      rename,
      `open "${before}" ${EXCLUSIVE}`,
      FAILURE,
    ])
      at.wasLogged(line, Date.now() * 1000, seen);
    if (ending === 'killed') at.gone(1);
    else at.wasLogged(close(before, 2), Date.now() * 1000, seen);
    await at.stays([`${before} 5`], [`${before} 4 partial`]);
  });

test('long after such a rename, an open file is opened exclusively, and another session moves it before that is read: announced once', async () => {
  await using at = await recordingPlace({ isDead: () => false, isHeld: () => true, heldBy: () => [] });
  const now = (): number => Date.now() * 1000;
  at.wasLogged(`posix-rename old "a" new "${'q'.repeat(500)}`.slice(0, 500), now(), [null]);
  at.write('b', 'whole');
  const seen = [observationOf(statSync(join(at.files, 'b')))];
  await wait(5);
  at.wasLogged(`open "a" ${WRITE}`, now(), seen);
  at.wasLogged(`open "a" ${EXCLUSIVE}`, now(), [null]);
  at.wasLogged(FAILURE, now(), [null]);
  at.logged(2, 'posix-rename old "a" new "b"');
  at.wasLogged(close('a', 5), now(), [null]);
  await at.comes(['b 5'], ['b 5 uploaded']);
  at.logged(1, 'session closed for local user acme from [192.0.2.7]');
  await at.stays(['b 5'], ['b 5 uploaded']);
});
