/** Closes under names that the log has cut off: the kernel shows which file was closed. */
import assert from 'node:assert/strict';
import { renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { FileSyncer } from '../../../../src/arrivals/uploads/disk/file-syncer.ts';
import { observationOf } from '../../../../src/arrivals/uploads/log/line-owners.ts';
import type { HeldPath } from '../../../../src/arrivals/uploads/processes.ts';
import { BEGINNING, CLOSE, HALF, NAME, OPEN, storyOf, WHOLE } from '../../../support/cut-off-story.ts';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

test('a descriptor is open a moment longer than its close is logged: its file is complete, the next one is not', () => {
  const { puts, line, dies } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(CLOSE, [WHOLE], [WHOLE]);
  line(OPEN, [], [HALF]);
  dies();
  assert.deepEqual(puts, ['whole complete', 'half dropped']);
});

test('a close is shown by the kernel a moment later, without another line', () => {
  const { puts, line, passes } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(CLOSE, [WHOLE], [WHOLE]);
  passes(30, []);
  assert.deepEqual(puts, ['whole complete']);
});

test('an open is read when its file is closed and the next one is open: that one is not taken for it', () => {
  const { puts, lost, line, dies } = storyOf();
  line(OPEN, [HALF], [HALF]);
  line(CLOSE, [HALF], [HALF]);
  line(OPEN, [HALF], [HALF]);
  dies();
  assert.deepEqual(puts, ['half dropped']);
  assert.equal(lost(), 1);
});

test('the process ended before berth could ask: nothing counts as complete', () => {
  const { puts, lost, line, dies } = storyOf();
  line(OPEN, [HALF], undefined);
  line(CLOSE, undefined, undefined);
  line(OPEN, undefined, undefined);
  dies();
  assert.ok(!puts.includes('half complete'));
  assert.equal(lost(), 2);
});

test('a file is not shown as open yet when its line is read: the kernel is asked again', () => {
  const { puts, line, passes } = storyOf();
  line(OPEN, [], []);
  passes(100, [WHOLE]);
  line(CLOSE, [], []);
  assert.deepEqual(puts, ['whole complete']);
});

/** Lines that have the whole name, and end in the wording after it. */
const SHORTER = 'n'.repeat(485);
const opened = (name: string): string => `open "${SHORTER}${name}" flags WRITE,CREATE,TRUNCATE mode 0644`.slice(0, 500);
const closed = (name: string): string => `close "${SHORTER}${name}" bytes read 0 written 4`.slice(0, 500);

test('the log has cut off the wording after a name: the close is that of the open, and of no longer name', () => {
  for (const [first, isIts] of [
    ['7', true],
    ['70', false],
  ] as const) {
    const { lost, line, dies } = storyOf();
    line(opened('7'), undefined, undefined);
    line(closed(first), undefined, undefined);
    dies();
    // The process died with the file open, unless it was closed.
    assert.equal(lost(), isIts ? 1 : 2);
  }
});

test('the log has the whole name of an open, and sets its times before the close: that is not a change of the file before', () => {
  const { puts, line } = storyOf();
  const file = { path: `${SHORTER}7`, ino: 1, size: 4, birthtimeMs: BEGINNING / 1000, mtimeMs: 0 };
  const written = (ms: number) => [{ ...file, sinceMs: BEGINNING / 1000 + ms }];
  for (const ms of [1, 4]) {
    line(opened('7'), [], []);
    line(`set "${SHORTER}7" modtime 20170714-02:40:00`.slice(0, 500), [], [], written(ms));
    line(closed('7'), [], [], written(ms));
  }
  assert.deepEqual(puts, [' complete', ' complete']);
});

test('the process ended before the closes of two names were read: each waits for its own file', () => {
  const { puts, line, dies } = storyOf();
  const [seven, eight] = ['7', '8'].map((name, index) => ({ path: SHORTER + name, inode: index + 1 })) as [
    HeldPath,
    HeldPath,
  ];
  line(opened('7'), [seven], [seven]);
  line(opened('8'), [seven, eight], [seven, eight]);
  line(closed('8'), undefined, undefined);
  line(closed('7'), undefined, undefined);
  dies();
  assert.deepEqual(puts, [' complete', ' complete']);
});

test('a write is refused after a close that waits: that file is complete', () => {
  const { puts, line, passes } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(CLOSE, [WHOLE], [WHOLE]);
  line(`error: process_write: write "${NAME.slice(0, 100)}": No space left on device`, [WHOLE], [WHOLE]);
  passes(30, []);
  assert.deepEqual(puts, ['whole complete']);
});

test('the folder is renamed before the line of an open is interpreted: the kernel has shown the file under its old path', () => {
  const { puts, lost, line } = storyOf({ hasMoved: true });
  line(OPEN, [WHOLE], [{ ...WHOLE, path: `elsewhere/${WHOLE.path}` }]);
  line(`forced ${CLOSE}`.slice(0, 500), undefined, undefined);
  assert.deepEqual(puts, ['whole dropped']);
  assert.equal(lost(), 0);
});

test('the folder was renamed before the kernel was asked: the file is the one that the log has brought to its new folder', () => {
  const { puts, lost, line, passes } = storyOf();
  const moved = { ...HALF, path: `e/${HALF.path}` };
  line(`open "d/${NAME}`.slice(0, 500), [], [moved]);
  line('posix-rename old "d" new "e"', undefined, [moved]);
  line('stat name "e"', undefined, [moved]);
  passes(30, [moved]);
  line(`forced close "d/${NAME}`.slice(0, 500), undefined, undefined);
  assert.deepEqual(puts, [`${moved.path.slice(NAME.length + 1)} dropped`]);
  assert.equal(lost(), 0);
});

test('one of two handles of a file is closed, and the other one when the connection breaks: the file is cut off', () => {
  for (const shown of [[HALF], [HALF, HALF]]) {
    const { puts, line, passes } = storyOf();
    line(OPEN, [HALF], [HALF]);
    line(OPEN, [HALF, HALF], [HALF, HALF]);
    passes(300, [HALF, HALF]);
    line(CLOSE, shown, shown);
    line(`forced ${CLOSE}`.slice(0, 500), undefined, undefined);
    line('session closed for local user someone from [192.0.2.1]', undefined, undefined);
    assert.deepEqual(puts, ['half dropped']);
  }
});

test('the connection breaks before the kernel has shown which of two files was closed: neither counts as complete', () => {
  const { puts, line } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(OPEN, [WHOLE, HALF], [WHOLE, HALF]);
  line(CLOSE, [WHOLE, HALF], [WHOLE, HALF]);
  line(`forced ${CLOSE}`.slice(0, 500), undefined, undefined);
  line('session closed for local user someone from [192.0.2.1]', undefined, undefined);
  assert.deepEqual(puts, ['whole dropped', 'half dropped']);
});

test('a file is taken for that of an earlier open, and is open when the line of its own is read: it is complete once', () => {
  const { puts, lost, line, dies } = storyOf();
  line(OPEN, [], []);
  line(CLOSE, [], [WHOLE]);
  line(OPEN, [WHOLE], []);
  line(CLOSE, [], []);
  dies();
  assert.deepEqual(puts, ['whole complete']);
  assert.equal(lost(), 1);
});

test('the connection breaks while the kernel shows a file that no open is known of: that one is cut off', () => {
  const { puts, line } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(OPEN, [HALF], [HALF]);
  line(CLOSE, [HALF], [HALF]);
  line(OPEN, [HALF], [HALF]);
  line(`forced ${CLOSE}`.slice(0, 500), undefined, undefined);
  assert.deepEqual(puts, ['whole complete', 'half dropped']);
});

test('the process is killed while the kernel shows a file that no open is known of: that one is lost', () => {
  const { puts, lost, line, dies } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(CLOSE, [HALF], [HALF]);
  dies();
  assert.deepEqual([puts, lost()], [['whole complete'], 1]);
});

test('a request was refused while a file was open, and berth is started again before its close: the file was opened, and may be short', () => {
  const { puts, line, restarts } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line('sent status Failure', undefined, [WHOLE]);
  restarts();
  line(CLOSE, [], []);
  assert.deepEqual(puts, ['whole doubted']);
});

test('a request is refused after a close that waits: that file is not short', () => {
  const { puts, line, passes } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(CLOSE, [WHOLE], [WHOLE]);
  line('sent status Failure', undefined, [WHOLE]);
  passes(30, []);
  assert.deepEqual(puts, ['whole complete']);
});

test('a line shows what a process holds of files with a name like its own: another file was not closed', () => {
  for (const other of ['open', 'close']) {
    const { puts, line, passes } = storyOf();
    line(OPEN, [HALF], [HALF]);
    line(OPEN, [HALF, WHOLE], [HALF, WHOLE]);
    line(CLOSE, [HALF, WHOLE], [HALF, WHOLE]);
    line(`${other} "${'o'.repeat(520)}`.slice(0, 500), [], [HALF]);
    passes(30, [HALF]);
    assert.deepEqual(puts, ['whole complete']);
  }
});

test('the process is killed before the kernel has shown which of two files was closed: neither counts as complete', () => {
  const { puts, line, passes, dies } = storyOf();
  line(OPEN, [HALF], [HALF]);
  line(OPEN, [HALF, WHOLE], [HALF, WHOLE]);
  line(CLOSE, [HALF, WHOLE], undefined);
  passes(2000, undefined);
  dies();
  assert.deepEqual(puts, ['half dropped', 'whole dropped']);
});

test('lines are read again after a crash: what the process held then counts, not what it holds now', () => {
  const { puts, line, readsAgain } = storyOf();
  readsAgain(true);
  line(OPEN, [], []);
  line(OPEN, [HALF, WHOLE], []);
  line(CLOSE, [HALF, WHOLE], []);
  line(OPEN, [HALF], []);
  assert.deepEqual(puts, ['whole complete']);
  readsAgain(false);
  line(CLOSE, [], []);
  assert.deepEqual(puts, ['whole complete', 'half complete']);
});

for (const [which, known] of [
  ['the file that is closed', WHOLE],
  ['the other file', HALF],
] as const) {
  test(`berth is killed and loses the line of an open, and knows the open of ${which}: the close is that of the one that has gone`, () => {
    const { puts, lost, line, restarts, compares, dies } = storyOf();
    line(OPEN, [known], [known]);
    restarts();
    compares([WHOLE, HALF]);
    line(CLOSE, [HALF], [HALF]);
    dies();
    assert.deepEqual(puts, ['whole complete', 'half dropped']);
    assert.equal(lost(), 0);
  });
}

test('an open may have been refused, and the process is killed before the kernel was asked: its file is looked for as a half', () => {
  const { lost, line, isAwaited, dies } = storyOf();
  line(OPEN, undefined, undefined);
  line('sent status Failure', undefined, undefined);
  assert.ok(isAwaited(HALF));
  dies();
  assert.equal(lost(), 1);
});

test('the same, but the kernel has shown that the process does not hold the file: nothing is looked for', () => {
  const { lost, line, isAwaited, dies } = storyOf();
  line(OPEN, [], []);
  line('sent status Failure', [], []);
  assert.ok(!isAwaited(HALF));
  dies();
  assert.equal(lost(), 0);
});

// Names that the log cuts off: what the log does not say of their files, the kernel and the disk show.

const LONG_NAME = '字'.repeat(43);
const PATH = Buffer.from(LONG_NAME).toString('latin1');
const LOGGED = '\\345\\255\\227'.repeat(43);
const LONG_OPEN = `open "/files/${LOGGED}`.slice(0, 500);
const LONG_CLOSE = `close "/files/${LOGGED}`.slice(0, 500);

/** Lets a client open the file again while it is synced for the first time. */
class Reopened extends FileSyncer {
  opensAgain: (() => void) | undefined;

  override async file(root: string, fd: number, size: number): Promise<void> {
    this.opensAgain?.();
    this.opensAgain = undefined;
    await super.file(root, fd, size);
  }
}

test('an upload is synced while its file is emptied by the next open: both are announced with the size that it has at the end', async () => {
  let held: HeldPath[] = [];
  const syncer = new Reopened({ isOn: true });
  await using place = await recordingPlace({ syncer, heldBy: () => held });
  const open = (): void => {
    place.write(LONG_NAME, '');
    held = [{ path: PATH, inode: statSync(join(place.files, LONG_NAME)).ino }];
  };
  const close = (data: string): void => {
    place.write(LONG_NAME, data);
    held = [];
    place.logged(1, LONG_CLOSE);
  };
  syncer.opensAgain = open;
  open();
  place.logged(1, LONG_OPEN);
  await place.comesTo([], []);
  close('xxxxx');
  await place.parting.drained();
  place.logged(1, LONG_OPEN);
  await place.comesTo([], []);
  close('yyyyyyyyy');
  await place.settles([`${LONG_NAME} 9`, `${LONG_NAME} 9`], [`${LONG_NAME} 9 uploaded`]);
});

test('the next upload empties the file before its status is read, and closes it before the kernel is asked: never announced as empty', async () => {
  let held: HeldPath[] = [];
  let isAsked: (() => void) | undefined;
  const syncer = new Reopened({ isOn: true });
  const heldBy = (): HeldPath[] => {
    isAsked?.();
    isAsked = undefined;
    return held;
  };
  await using place = await recordingPlace({ syncer, heldBy });
  syncer.opensAgain = () => {
    isAsked = () => place.write(LONG_NAME, 'yyyyyyyyy');
  };
  place.write(LONG_NAME, '');
  held = [{ path: PATH, inode: statSync(join(place.files, LONG_NAME)).ino }];
  place.logged(1, LONG_OPEN);
  await place.comesTo([], []);
  held = [];
  place.logged(1, LONG_CLOSE);
  await place.settles([`${LONG_NAME} 9`], [`${LONG_NAME} 9 uploaded`]);
});

for (const [what, shown] of [
  ['while the kernel shows its file', true],
  ['before the kernel has shown its file', false],
] as const) {
  test(`a write may have been cut short, ${what}: partial, since the log has no number of bytes`, async () => {
    let held: HeldPath[] = [];
    await using place = await recordingPlace({ heldBy: () => held });
    place.write(LONG_NAME, 'xxxxx');
    if (shown) held = [{ path: PATH, inode: statSync(join(place.files, LONG_NAME)).ino }];
    place.logged(1, LONG_OPEN, 'sent status Failure');
    await place.parting.drained();
    held = [];
    place.logged(1, LONG_CLOSE);
    await place.parting.drained();
    place.touch(PATH);
    await place.settles([], [`${LONG_NAME} 5 partial`]);
  });
}

test('an upload gets a name that the log cuts off, and the next one of its old name, opened long before that is read, is cut off: the first is complete', async () => {
  await using at = await recordingPlace({ isDead: () => false, isTemporary: (path) => path.endsWith('.part') });
  const name = 'q'.repeat(250);
  at.write('x.part', 'whole');
  at.logged(1, `open "x.part" ${WRITE}`, 'close "x.part" bytes read 0 written 5');
  await at.comes([], ['x.part 5 waiting']);
  renameSync(join(at.files, 'x.part'), join(at.files, name));
  at.wasLogged(`rename old "x.part" new "${'q'.repeat(500)}`.slice(0, 500), Date.now() * 1000);
  at.write('x.part', 'half');
  await wait(100);
  const seen = [observationOf(statSync(join(at.files, 'x.part')))];
  for (const line of [`open "x.part" ${WRITE}`, 'forced close "x.part" bytes read 0 written 4'])
    at.wasLogged(line, Date.now() * 1000, seen);
  await at.comes([], ['x.part 4 partial']);
  at.touch(name);
  at.logged(1, 'session closed for local user acme from [192.0.2.7]');
  await at.comes([`${name} 5`], [`${name} 5 uploaded`, 'x.part 4 partial'].toSorted());
});
