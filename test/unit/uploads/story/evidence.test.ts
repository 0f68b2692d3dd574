/**
 * What follows from the lines of the log when handles open and close in every way. test/sshd checks the same with a real
 * sshd.
 */
import assert from 'node:assert/strict';
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../../../src/foundation/base/clock.ts';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

const APPEND = 'flags WRITE mode 0644';
const EXCLUSIVE = WRITE.replace('TRUNCATE', 'EXCL');

/** Processes that no kernel has: PID_MAX_LIMIT is 2^22 (proc(5)). */
const DEAD = [2 ** 22 + 1, 2 ** 22 + 2];

type Place = Awaited<ReturnType<typeof recordingPlace>>;
type Options = Parameters<typeof recordingPlace>[0];

/** Each part of a story is said, or done to the disk, in its order; then all is looked at. */
function story(title: string, options: Options, play: (at: Place) => void, announced: string[], rows: string[]): void {
  test(title, async () => {
    await using at = await recordingPlace(options);
    play(at);
    await at.comesTo(announced, rows);
  });
}

function write(at: Place, path: string, data = 'xxxxx'): void {
  writeFileSync(join(at.files, path), data);
}

story(
  'written and closed: complete',
  {},
  (at) => {
    write(at, 'a');
    at.logged(1, `open "/files/a" ${WRITE}`, 'close "/files/a" bytes read 0 written 5');
  },
  ['a 5'],
  ['a 5 uploaded'],
);

story(
  'made and closed with nothing written: complete, an empty file',
  {},
  (at) => {
    write(at, 'a', '');
    at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 0');
  },
  ['a 0'],
  ['a 0 uploaded'],
);

story(
  'read and closed: nothing',
  {},
  (at) => {
    write(at, 'a');
    at.logged(1, 'open "a" flags READ mode 0666', 'close "a" bytes read 5 written 0');
  },
  [],
  [],
);

story(
  'forced close: cut off',
  {},
  (at) => {
    write(at, 'a');
    at.logged(1, `open "a" ${WRITE}`, 'forced close "a" bytes read 0 written 5');
  },
  [],
  ['a 5 partial'],
);

for (const isLast of [false, true]) {
  story(
    isLast ? 'two handles, both closed: complete once' : 'two handles, one closed: not complete',
    {},
    (at) => {
      write(at, 'a');
      at.logged(1, `open "a" ${WRITE}`, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
      if (isLast) at.logged(1, 'close "a" bytes read 0 written 5');
    },
    isLast ? ['a 5'] : [],
    isLast ? ['a 5 uploaded'] : [],
  );

  story(
    `resumed by a second session while the first hangs, which ${isLast ? 'then dies: the newer handle decides' : 'may yet write'}`,
    {},
    (at) => {
      write(at, 'a');
      at.logged(1, `open "a" ${WRITE}`);
      at.logged(2, `open "a" ${APPEND}`, 'close "a" bytes read 0 written 5');
      if (isLast) at.logged(1, 'forced close "a" bytes read 0 written 9');
    },
    isLast ? ['a 5'] : [],
    isLast ? ['a 5 uploaded'] : [],
  );

  story(
    isLast
      ? 'a process that was killed does not hold up the upload that takes the place of its own'
      : 'a process that lives and holds the file open does',
    {},
    (at) => {
      write(at, 'a');
      at.logged(1, `open "a" ${WRITE}`);
      at.logged(2, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
      if (isLast) at.gone(1);
    },
    isLast ? ['a 5'] : [],
    isLast ? ['a 5 uploaded'] : [],
  );
}

story(
  'two sessions that are long over when their lines are heard: complete once, at the last close',
  {},
  (at) => {
    write(at, 'a');
    for (const pid of DEAD) at.logged(pid, `open "a" ${WRITE}`);
    for (const pid of DEAD) at.logged(pid, 'close "a" bytes read 0 written 5');
  },
  ['a 5'],
  ['a 5 uploaded'],
);

story(
  'two handles, the last of which wrote nothing: complete by the other',
  {},
  (at) => {
    write(at, 'a');
    const closes = ['close "a" bytes read 0 written 5', 'close "a" bytes read 0 written 0'];
    at.logged(1, `open "a" ${WRITE}`, `open "a" ${APPEND}`, ...closes);
  },
  ['a 5'],
  ['a 5 uploaded'],
);

story(
  'a handle follows its file when it is renamed, and when a folder above it is',
  {},
  (at) => {
    mkdirSync(join(at.files, 'e'));
    write(at, 'e/b');
    at.logged(1, `open "d/a" ${WRITE}`, 'rename old "d/a" new "d/b"', 'rename old "d" new "e"');
    at.logged(1, 'close "d/a" bytes read 0 written 5');
  },
  ['e/b 5'],
  ['e/b 5 uploaded'],
);

story(
  'a refused write makes the close worthless',
  {},
  (at) => {
    write(at, 'a');
    const refused = ['error: process_write: write "a": No space left on device', 'sent status Failure'];
    at.logged(1, `open "a" ${WRITE}`, ...refused, 'close "a" bytes read 0 written 2');
  },
  [],
  ['a 5 partial'],
);

story(
  'and also when the client removes the file before a look',
  {},
  (at) => {
    const refused = ['error: process_write: write "a": No space left on device', 'sent status Failure'];
    at.logged(1, `open "a" ${WRITE}`, ...refused, 'close "a" bytes read 0 written 0', 'remove name "a"');
  },
  [],
  [],
);

story(
  'a refusal of something that is not logged says nothing about a file that is all that was written',
  {},
  (at) => {
    write(at, 'a');
    at.logged(1, `open "a" ${WRITE}`, 'sent status Failure', 'sent status Failure');
    at.logged(1, 'close "a" bytes read 0 written 5');
  },
  ['a 5'],
  ['a 5 uploaded'],
);

story(
  'a refused rename says nothing about another file that is being written',
  {},
  (at) => {
    write(at, 'a');
    at.logged(1, `open "a" ${WRITE}`, 'rename old "b" new "c"', 'sent status Failure');
    at.logged(1, 'close "a" bytes read 0 written 5');
  },
  ['a 5'],
  ['a 5 uploaded'],
);

story(
  'a refused rename leaves the file that is being written where it was',
  {},
  (at) => {
    write(at, 'a');
    at.logged(1, `open "a" ${WRITE}`, 'rename old "a" new "b"', 'sent status Failure');
    at.logged(1, 'close "a" bytes read 0 written 5');
  },
  ['a 5'],
  ['a 5 uploaded'],
);

story(
  'a rename that is followed by the refusal of something that is not logged moves the file all the same',
  {},
  (at) => {
    write(at, 'a');
    at.logged(1, `open "a" ${WRITE}`);
    renameSync(join(at.files, 'a'), join(at.files, 'b'));
    at.logged(1, 'rename old "a" new "b"', 'sent status Failure', 'close "a" bytes read 0 written 5');
  },
  ['b 5'],
  ['b 5 uploaded'],
);

story(
  'an open that failed does not count as a handle',
  { isHeld: () => false },
  (at) => {
    at.logged(1, `open "a" ${WRITE}`, 'sent status Permission denied');
    write(at, 'a');
    at.logged(2, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  },
  ['a 5'],
  ['a 5 uploaded'],
);

story(
  'an exclusive open of a file that the session writes already fails: the close is that of the first handle',
  { isHeld: () => true },
  (at) => {
    write(at, 'a');
    at.logged(1, `open "a" ${WRITE}`, `open "a" ${EXCLUSIVE}`, 'sent status Failure');
    at.logged(1, 'close "a" bytes read 0 written 5');
  },
  ['a 5'],
  ['a 5 uploaded'],
);

test('an exclusive open is refused, and read when the next open is held already: the upload is found out at its close', async () => {
  let isHeld = true;
  await using at = await recordingPlace({ isHeld: () => isHeld });
  write(at, 'a');
  at.logged(1, `open "a" ${EXCLUSIVE}`, 'sent status Failure', `open "a" ${WRITE}`);
  await at.comesTo([], []);
  at.logged(1, 'close "a" bytes read 0 written 5');
  isHeld = false;
  await at.settles(['a 5'], ['a 5 uploaded']);
});

test('even if the session opens another file before its refusal is read', async () => {
  await using at = await recordingPlace({ isHeld: () => false });
  write(at, 'a');
  write(at, 'b');
  at.logged(1, `open "a" ${EXCLUSIVE}`, 'sent status Failure', `open "b" ${WRITE}`);
  at.logged(2, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  at.logged(1, 'close "b" bytes read 0 written 5');
  await at.settles(['a 5', 'b 5'], ['a 5 uploaded', 'b 5 uploaded']);
});

test('an exclusive open makes the file, and the disk is full for a part of what is written: not complete', async () => {
  let isHeld = true;
  await using at = await recordingPlace({ isHeld: () => isHeld });
  at.logged(1, `open "a" ${EXCLUSIVE}`);
  write(at, 'a');
  at.logged(1, 'sent status Failure');
  await at.comesTo([], []);
  isHeld = false;
  at.logged(1, 'close "a" bytes read 0 written 3');
  await at.settles([], ['a 5 partial']);
});

story(
  'a process that dies without a line leaves its files cut off',
  {},
  (at) => {
    write(at, 'a');
    at.logged(1, `open "a" ${WRITE}`);
    at.gone(1);
  },
  [],
  ['a 5 partial'],
);

story(
  'names outside files/ change nothing',
  {},
  (at) => {
    write(at, 'a');
    at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
    at.logged(1, 'remove name "/dev/log"', 'remove name "../dev/log"', 'remove name "/files"');
  },
  ['a 5'],
  ['a 5 uploaded'],
);

story(
  'closed, renamed and removed before a look: announced by the word of the log',
  {},
  (at) => {
    write(at, 'a');
    at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
    rmSync(join(at.files, 'a'));
    at.logged(1, 'rename old "a" new "b"', 'remove name "b"');
  },
  ['a 5'],
  [],
);

story(
  'written, closed, dated and renamed: one upload, under its last name',
  { isTemporary: (path) => path.endsWith('.part') },
  (at) => {
    write(at, 'a');
    at.logged(1, `open "a.part" ${WRITE}`, 'close "a.part" bytes read 0 written 5');
    at.logged(1, 'set "a.part" modtime 20200101-00:00:00', 'rename old "a.part" new "a"');
  },
  ['a 5'],
  ['a 5 uploaded'],
);

for (const [how, size] of [
  ['written', 9],
  ['closed without a change', 5],
] as const) {
  test(`opened again under its temporary name, renamed, and then ${how}: one upload, when it is closed`, async () => {
    await using at = await recordingPlace({ isTemporary: (path) => path.endsWith('.part') });
    write(at, 'a.part');
    at.logged(1, `open "a.part" ${WRITE}`, 'close "a.part" bytes read 0 written 5');
    await at.comesTo([], ['a.part 5 waiting']);
    at.logged(1, 'open "a.part" flags WRITE mode 0644', 'rename old "a.part" new "a"', 'stat name "a"');
    renameSync(join(at.files, 'a.part'), join(at.files, 'a'));
    await at.comesTo([], ['a 5 waiting']);
    if (size > 5) write(at, 'a', 'x'.repeat(size));
    at.logged(1, `close "a.part" bytes read 0 written ${size > 5 ? size : 0}`);
    await at.settles([`a ${size}`], [`a ${size} uploaded`]);
  });
}

story(
  'the file of an upload has replaced another before the other’s lines are heard: each once, by its size',
  {},
  (at) => {
    write(at, 'b', 'xxxxx');
    at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
    at.logged(2, `open "b" ${WRITE}`, 'close "b" bytes read 0 written 7');
    at.logged(1, 'rename old "a" new "b"');
  },
  ['a 5', 'b 7'],
  ['b 5 uploaded'],
);

test('a rename that is read again after a crash does not take the upload that has come under the old name since', async () => {
  await using at = await recordingPlace({ isTemporary: (path) => path.endsWith('.part') });
  const before = systemClock().now();
  at.write('a.part', 'xxxxx');
  at.logged(1, `open "a.part" ${WRITE}`, 'close "a.part" bytes read 0 written 5');
  await at.comesTo([], ['a.part 5 waiting']);
  // Then an administrator has moved something to its name.
  at.write('b', 'x'.repeat(9));
  renameSync(join(at.files, 'b'), join(at.files, 'a.part'));
  at.parting.recorder.repeated(systemClock().now());
  at.wasLogged('rename old "a.part" new "c"', before);
  at.logged(1, 'stat name "a.part"');
  await at.parting.drained();
  assert.deepEqual(await at.announced(), []);
});
