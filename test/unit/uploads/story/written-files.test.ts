/** Small files with names that the log has cut off: closed before the kernel was asked, they are found by their ctimes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FileAlike } from '../../../../src/arrivals/uploads/log/journal-record.ts';
import { BEGINNING, CLOSE, HALF, NAME, OPEN, storyOf, WHOLE } from '../../../support/cut-off-story.ts';

const SET = `set "${NAME}`.slice(0, 500);
const SESSION_END = 'session closed for local user someone from [192.0.2.1]';

/** A file as it was changed `ms` after the beginning, and last written then, or when the client has set. */
function changed({ path, inode }: typeof WHOLE, ms: number, writtenMs = ms): FileAlike {
  const at = (after: number): number => BEGINNING / 1000 + after;
  return { path, ino: inode, size: 4, mtimeMs: at(writtenMs), sinceMs: at(ms), birthtimeMs: at(0) };
}

const OLD = -5000;

/** sshd has refused a write to a file that `WHOLE` may be. */
const REFUSED = `error: process_write: write "${WHOLE.path.slice(0, 100)}": No space left on device`;

test('a file is closed before the kernel was asked: the changed one of two is complete', () => {
  const { puts, lost, line } = storyOf();
  line(OPEN, [], []);
  line(CLOSE, [], [], [changed(HALF, OLD), changed(WHOLE, 1)]);
  assert.deepEqual([puts, lost()], [['whole complete'], 0]);
});

test('it is sent again with the same size and time: each time it is complete', () => {
  const { puts, lost, line } = storyOf();
  for (const ms of [1, 100, 200]) {
    line(OPEN, [], []);
    line(CLOSE, [], [], [changed(WHOLE, ms, OLD)]);
    line(SET, [], [], [changed(WHOLE, ms + 1, OLD)]);
  }
  assert.deepEqual([puts, lost()], [['whole complete', 'whole complete', 'whole complete'], 0]);
});

test('a file is only read: nothing is complete, also when its times were set before', () => {
  const { puts, lost, line } = storyOf();
  line(OPEN, [], []);
  line(CLOSE, [], [], [changed(WHOLE, 1)]);
  line(SET, [], [], [changed(WHOLE, 3, OLD), changed(HALF, OLD)]);
  line(OPEN, [], []);
  line(CLOSE, [], [], [changed(WHOLE, 3, OLD), changed(HALF, OLD)]);
  assert.deepEqual([puts, lost()], [['whole complete'], 0]);
});

test('several files were written before the first line was read: the one that was written first comes first', () => {
  const { puts, line } = storyOf();
  const files = [changed(HALF, 2), changed(WHOLE, 1)];
  line(OPEN, [], []);
  line(CLOSE, [], [], files);
  line(OPEN, [], []);
  line(CLOSE, [], [], files);
  assert.deepEqual(puts, ['whole complete', 'half complete']);
});

test('the kernel shows the next file before the close of the first is interpreted: each is complete once', () => {
  const { puts, lost, line, passes } = storyOf();
  line(OPEN, [], [HALF]);
  line(CLOSE, [], [HALF], [changed(WHOLE, 1)]);
  line(OPEN, [HALF], [HALF]);
  line(CLOSE, [], [], [changed(WHOLE, 1), changed(HALF, 4)]);
  passes(30, []);
  assert.deepEqual([puts, lost()], [['whole complete', 'half complete'], 0]);
});

test('the file is open again when its close is interpreted: it is complete, and again at the end', () => {
  const { puts, line } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(CLOSE, [WHOLE], [WHOLE], [changed(WHOLE, 1)]);
  line(OPEN, [WHOLE], [WHOLE]);
  line(CLOSE, [], [], [changed(WHOLE, 4)]);
  assert.deepEqual(puts, ['whole complete', 'whole complete']);
});

test('a set size or time of a file that is open is no upload, and no other file becomes one', () => {
  const { puts, line } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(SET, [WHOLE], [WHOLE], [changed(WHOLE, 2, OLD)]);
  line(OPEN, [WHOLE], [WHOLE]);
  line(CLOSE, [WHOLE], [WHOLE], [changed(WHOLE, 2, OLD), changed(HALF, OLD)]);
  assert.deepEqual(puts, []);
});

test('a file that is held is not complete, although the session closes another one like it', () => {
  const { puts, line, dies } = storyOf();
  line(OPEN, [], []);
  line(OPEN, [HALF], [HALF]);
  line(CLOSE, [HALF], [HALF], [changed(HALF, 1), changed(WHOLE, 2)]);
  dies();
  assert.deepEqual(puts, ['whole complete', 'half dropped']);
});

test('the process has ended before the line of a close is read: the end of its session decides', () => {
  const { puts, lost, line } = storyOf();
  line(OPEN, undefined, undefined);
  line(CLOSE, undefined, undefined, [changed(WHOLE, 1)]);
  assert.deepEqual(puts, []);
  line(SESSION_END, undefined, undefined);
  assert.deepEqual([puts, lost()], [['whole complete'], 0]);
});

test('its connection broke while it had another file like it open: nobody can tell which is complete', () => {
  const { puts, lost, line } = storyOf();
  line(OPEN, undefined, undefined);
  line(OPEN, undefined, undefined);
  line(CLOSE, undefined, undefined, [changed(WHOLE, 1), changed(HALF, 2)]);
  line(`forced ${CLOSE}`.slice(0, 500), undefined, undefined, [changed(WHOLE, 1), changed(HALF, 2)]);
  line(SESSION_END, undefined, undefined);
  assert.deepEqual([puts, lost()], [[], 2]);
});

test('its process was killed: nobody can tell', () => {
  const { puts, lost, line, dies } = storyOf();
  line(OPEN, undefined, undefined);
  line(CLOSE, undefined, undefined, [changed(HALF, 1)]);
  dies();
  assert.deepEqual([puts, lost()], [[], 1]);
});

test('a write to a small file was refused: it is not complete', () => {
  const { puts, line } = storyOf();
  line(OPEN, [], []);
  line(REFUSED, [], []);
  line('sent status Failure', [], []);
  line(CLOSE, [], [], [changed(WHOLE, 1)]);
  assert.deepEqual(puts, ['whole dropped']);
});

test('a write was refused, and the process has ended before berth reads the line: the upload that is lost is not complete', () => {
  for (const end of ['died', 'closed'] as const) {
    const { line, lost, lostComplete, isAwaited, dies } = storyOf();
    line(OPEN, undefined, undefined);
    line(REFUSED, undefined, undefined);
    line(CLOSE, undefined, undefined, [changed(WHOLE, 1)]);
    // Until the end of the session is known, nobody takes the file for an administrator's copy.
    assert.deepEqual([lost(), isAwaited(WHOLE)], [0, true]);
    if (end === 'died') dies();
    else line(SESSION_END, undefined, undefined);
    assert.deepEqual([lostComplete(), isAwaited(WHOLE)], [0, false]);
  }
});

test('a write was refused, and the process has gone before the kernel shows that its file is closed: it is not complete', () => {
  const { puts, line, passes } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(REFUSED, [WHOLE], [WHOLE]);
  line(CLOSE, [WHOLE], [WHOLE], [changed(WHOLE, 1)]);
  passes(2000, undefined);
  assert.deepEqual(puts, ['whole dropped']);
});

test('a write was refused, and nobody can tell which file was closed: the upload that is lost is not complete', () => {
  const { line, lost, lostComplete, passes, dies } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(OPEN, [WHOLE, HALF], [WHOLE, HALF]);
  line(REFUSED, [WHOLE, HALF], [WHOLE, HALF]);
  line(CLOSE, undefined, undefined);
  passes(2000, undefined);
  dies();
  assert.deepEqual([lost(), lostComplete()], [1, 0]);
});

test('its process was killed, and another session reads or closes a file like it: it stays partial', () => {
  const { puts, line, dies } = storyOf();
  line(OPEN, [HALF], [HALF]);
  dies();
  const files = [changed(HALF, 1), changed(WHOLE, 3)];
  line(OPEN, [], [], undefined, 2);
  line(CLOSE, [], [], files, 2);
  line(OPEN, [], [], undefined, 2);
  line(CLOSE, [], [], files, 2);
  assert.deepEqual(puts, ['half dropped', 'whole complete']);
});

test('a file that was cut off gets new times or another mode while one like it is read: it is not complete', () => {
  const { puts, lost, line } = storyOf();
  line(OPEN, [HALF], [HALF]);
  line(`forced ${CLOSE}`.slice(0, 500), [HALF], [HALF], [changed(HALF, 1)]);
  line(OPEN, [], []);
  line(CLOSE, [], [], [changed(HALF, 300, 1), changed(WHOLE, OLD)]);
  assert.deepEqual([puts, lost()], [['half dropped'], 0]);
});

test('of two files that are known to be open one was closed unseen, and the connection breaks: the other one is cut off', () => {
  const { puts, lost, line } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(OPEN, [HALF], [HALF]);
  line(`forced ${CLOSE}`.slice(0, 500), undefined, undefined, [changed(HALF, 2), changed(WHOLE, 1)]);
  line(SESSION_END, undefined, undefined);
  assert.deepEqual([puts, lost()], [['half dropped'], 0]);
});

test('a half that the kernel had not shown gets another mode while one like it is read: it is not complete', () => {
  const { puts, line } = storyOf();
  line(OPEN, [], []);
  line(`forced ${CLOSE}`.slice(0, 500), undefined, undefined, undefined);
  line(OPEN, [], [], undefined, 2);
  line(CLOSE, [], [], [changed(HALF, 300, 1)], 2);
  assert.deepEqual(puts, []);
});

for (const [what, pause, ms, complete] of [
  ['was changed before the open that is closed: it is not what was written', 2300, 20, ['whole complete']],
  [
    'is sent again, and its lines are read late: it is complete both times',
    900,
    100,
    ['whole complete', 'whole complete'],
  ],
] as const)
  test(`a file ${what}`, () => {
    const { puts, line } = storyOf();
    line(OPEN, [], []);
    line(CLOSE, [], [], [changed(WHOLE, 1)]);
    for (let i = 0; i < pause; i += 1) line('stat name "a"', [], []);
    line(OPEN, [], []);
    line(CLOSE, [], [], [changed(WHOLE, ms)]);
    assert.deepEqual(puts, complete);
  });

test('a close is taken for that of another file, and the next open is of the file that the kernel shows', () => {
  const { puts, line } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(CLOSE, [], [], [changed({ path: `${NAME}-other`, inode: 3 }, 1)]);
  line(OPEN, [HALF], [HALF]);
  line(`forced ${CLOSE}`.slice(0, 500), undefined, undefined);
  assert.deepEqual(puts, ['other complete', 'half dropped']);
});

test('what the kernel shows with one session is not what another one has closed', () => {
  const { puts, line } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(CLOSE, [HALF], [], [changed(HALF, 4)]);
  line(OPEN, [], [], undefined, 2);
  line(CLOSE, [], [], [changed(HALF, 4)], 2);
  assert.deepEqual(puts, ['whole complete']);
});

test('a new file got its long name right before another one is closed: it is not what was written', () => {
  const { puts, line } = storyOf();
  for (let i = 0; i < 1000; i += 1) line('stat name "a"', [], []);
  line(OPEN, [], []);
  line(CLOSE, [], [], [changed(WHOLE, 900, 1)]);
  assert.deepEqual(puts, []);
});

test('a file that was cut off is sent again as a whole, and dated: complete, and once more', () => {
  const { puts, lost, line, passes } = storyOf();
  line(OPEN, [HALF], [HALF], undefined, 2);
  line(`forced ${CLOSE}`.slice(0, 500), undefined, undefined, [changed(HALF, 1)], 2);
  passes(300, []);
  line(OPEN, [], [HALF]);
  passes(600, [HALF]);
  line(CLOSE, [], [], [changed(HALF, 590, OLD)]);
  line(OPEN, [], []);
  line(CLOSE, [], [], [changed(HALF, 602, OLD)]);
  assert.deepEqual([puts, lost()], [['half dropped', 'half complete', 'half complete'], 0]);
});

test('the times of a complete file are set after berth has read that: it is not complete again', () => {
  for (const isOpenElsewhere of [false, true]) {
    const { puts, lost, line, passes } = storyOf();
    const held = isOpenElsewhere ? [{ path: `${NAME}-other`, inode: 3 }] : [];
    if (isOpenElsewhere) line(OPEN, held, held);
    line(OPEN, [...held, WHOLE], [...held, WHOLE]);
    line(CLOSE, held, held, [changed(WHOLE, 2)]);
    line(SET, held, held, [changed(WHOLE, 2)]);
    line(OPEN, held, held);
    line(CLOSE, held, held, [changed(WHOLE, 4, OLD), changed(HALF, 6, 5)]);
    passes(2000, held);
    assert.deepEqual([puts, lost()], [['whole complete', 'half complete'], 0]);
  }
});

test('no other file has a name like it: it is sent again at once with the same size and time, and that counts', () => {
  const { puts, line } = storyOf();
  for (const ms of [1, 4]) {
    line(OPEN, [], []);
    line(CLOSE, [], [], [changed(WHOLE, ms, OLD)]);
    line(SET, [], [], [changed(WHOLE, ms, OLD)]);
  }
  assert.deepEqual(puts, ['whole complete', 'whole complete']);
});

test('the times of a complete file are set before the kernel shows that it was closed: it is not complete again', () => {
  const { puts, line, passes } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(CLOSE, [WHOLE], [WHOLE], [changed(WHOLE, 2)]);
  line(SET, [WHOLE], [], [changed(WHOLE, 2)]);
  passes(30, []);
  line(OPEN, [], []);
  line(CLOSE, [], [], [changed(WHOLE, 4, OLD), changed(HALF, 31, 30)]);
  assert.deepEqual(puts, ['whole complete', 'half complete']);
});

test('a write is refused, and the kernel shows the next file before that is read: the first is cut off, the next is not', () => {
  const { puts, line } = storyOf();
  line(OPEN, [HALF], [HALF]);
  line(REFUSED, [HALF], [HALF]);
  line(CLOSE, [HALF], [HALF], [changed(WHOLE, 1)]);
  line(OPEN, [HALF], [HALF]);
  line(CLOSE, [], [], [changed(WHOLE, 1), changed(HALF, 5)]);
  assert.deepEqual(puts, ['whole dropped', 'half complete']);
});

test('a file is read, and opened again at once: what has changed nothing is no upload', () => {
  const { puts, line, passes } = storyOf();
  line(OPEN, [WHOLE], [WHOLE]);
  line(CLOSE, [], [], [changed(WHOLE, 2)]);
  passes(1500, []);
  line(OPEN, [], [WHOLE]);
  line(CLOSE, [WHOLE], [WHOLE], [changed(WHOLE, 2)]);
  line(OPEN, [WHOLE], [WHOLE]);
  line(CLOSE, [], [], [changed(WHOLE, 1510)]);
  assert.deepEqual(puts, ['whole complete', 'whole complete']);
});

test('an open is read up to 2 s late, as after a restart, and its file was dated: its upload is lost, not forgotten', () => {
  for (const [late, isLost] of [
    [1500, 1],
    [2500, 0],
  ] as const) {
    const { puts, line, lostComplete } = storyOf();
    line(OPEN, [], []);
    line(CLOSE, [], [], [{ ...changed(WHOLE, -late, OLD), birthtimeMs: BEGINNING / 1000 + OLD }]);
    assert.deepEqual([puts, lostComplete()], [[], isLost]);
  }
});
