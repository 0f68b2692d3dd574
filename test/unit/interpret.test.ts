/** When a file is complete: every way in which handles come and go. Real sshd runs the same in test/sshd. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createInterpreter } from '../../src/uploads/interpret.ts';
import { readEvent } from '../../src/uploads/log-line.ts';

/** Feeds lines of `pid: text` and returns what they change, as short texts. */
function changes(lines: readonly string[], { held = true, alive = true } = {}): string[] {
  const interpreter = createInterpreter({
    holds: () => held,
    isAlive: () => alive,
    writesInode: () => false,
    unclear: () => undefined,
    note: () => undefined,
  });
  return lines.flatMap((line, at) => {
    const [pid = '', text = ''] = line.split(/: (.*)/s);
    return interpreter.interpret({ pid: Number(pid), event: readEvent(text) }, at, 'd').map((change) => {
      if (change.kind === 'session-ended') return `session ${change.pid} ended`;
      const from = change.kind === 'renamed' ? `${change.from.toString()} -> ` : '';
      return `${change.kind} ${from}${change.path.toString()}`;
    });
  });
}

const opened = (pid: number): string => `${pid}: session opened for local user u from [::1]`;
const WRITE = 'flags WRITE,CREATE,TRUNCATE mode 0644';

test('written and closed: complete', () => {
  assert.deepEqual(changes([opened(1), `1: open "/files/a" ${WRITE}`, '1: close "/files/a" bytes read 0 written 5']), [
    'closed a',
  ]);
});

test('made and closed with nothing written: complete, an empty file', () => {
  assert.deepEqual(changes([opened(1), `1: open "a" ${WRITE}`, '1: close "a" bytes read 0 written 0']), ['closed a']);
});

test('read and closed: nothing', () => {
  assert.deepEqual(changes([opened(1), '1: open "a" flags READ mode 0666', '1: close "a" bytes read 5 written 0']), []);
});

test('forced close: cut off', () => {
  assert.deepEqual(changes([opened(1), `1: open "a" ${WRITE}`, '1: forced close "a" bytes read 0 written 5']), [
    'cut-off a',
  ]);
});

test('two handles: complete once, when the last is closed', () => {
  const lines = [opened(1), `1: open "a" ${WRITE}`, `1: open "a" ${WRITE}`, '1: close "a" bytes read 0 written 5'];
  assert.deepEqual(changes(lines), []);
  assert.deepEqual(changes([...lines, '1: close "a" bytes read 0 written 7']), ['closed a']);
});

test('two handles, the last of which wrote nothing: complete by the other', () => {
  const lines = [
    opened(1),
    `1: open "a" ${WRITE}`,
    '1: open "a" flags WRITE mode 0644',
    '1: close "a" bytes read 0 written 5',
    '1: close "a" bytes read 0 written 0',
  ];
  assert.deepEqual(changes(lines), ['closed a']);
});

test('resumed by a second session while the first hangs: the newer handle decides, when the older has died', () => {
  const lines = [
    opened(1),
    `1: open "a" ${WRITE}`,
    opened(2),
    '2: open "a" flags WRITE mode 0644',
    '2: close "a" bytes read 0 written 5',
  ];
  assert.deepEqual(changes(lines), []);
  assert.deepEqual(changes([...lines, '1: forced close "a" bytes read 0 written 9']), ['closed a']);
});

test('a handle follows its file when it is renamed, and when a folder above it is', () => {
  const lines = [opened(1), `1: open "d/a" ${WRITE}`, '1: rename old "d/a" new "d/b"', '1: rename old "d" new "e"'];
  assert.deepEqual(changes([...lines, '1: close "d/a" bytes read 0 written 5']), [
    'renamed d/a -> d/b',
    'renamed d -> e',
    'closed e/b',
  ]);
});

test('a refused write makes the close worthless', () => {
  const lines = [opened(1), `1: open "a" ${WRITE}`, '1: sent status Failure', '1: sent status Failure'];
  assert.deepEqual(changes([...lines, '1: close "a" bytes read 0 written 5']), ['cut-off a']);
});

test('a refused rename says nothing about what is being written', () => {
  const lines = [opened(1), `1: open "a" ${WRITE}`, '1: rename old "b" new "c"', '1: sent status Failure'];
  assert.deepEqual(changes([...lines, '1: close "a" bytes read 0 written 5']), ['renamed b -> c', 'closed a']);
});

test('an open that failed does not count as a handle', () => {
  const lines = [
    opened(1),
    `1: open "a" ${WRITE}`,
    '1: sent status Permission denied',
    opened(2),
    `2: open "a" ${WRITE}`,
  ];
  assert.deepEqual(changes([...lines, '2: close "a" bytes read 0 written 5'], { held: false }), ['closed a']);
});

test('a process that dies without a word leaves its files cut off', () => {
  assert.deepEqual(changes([opened(1), `1: open "a" ${WRITE}`, opened(1)]), ['cut-off a', 'session 1 ended']);
});

test('names outside files/ change nothing', () => {
  assert.deepEqual(
    changes([opened(1), '1: remove name "/dev/log"', '1: remove name "../dev/log"', '1: remove name "/files"']),
    [],
  );
});

test('what a session that nobody knows says is not taken for a directory’s', () => {
  assert.deepEqual(changes([`7: open "a" ${WRITE}`, '7: close "a" bytes read 0 written 5']), []);
});

test('a refused rename leaves the file that is being written where it was', () => {
  const lines = [opened(1), `1: open "a" ${WRITE}`, '1: rename old "a" new "b"', '1: sent status Failure'];
  const closed = '1: close "a" bytes read 0 written 5';
  assert.deepEqual(changes([...lines, closed], { held: false }), ['renamed a -> b', 'closed a']);
  // The refusal of something that sshd does not log.
  assert.deepEqual(changes([...lines, closed], { held: true }), ['renamed a -> b', 'closed b']);
});

test('what sshd complains of before its status is no request', () => {
  const complaint = '1: error: process_write: write "a": No space left on device';
  const lines = [opened(1), `1: open "a" ${WRITE}`, complaint, '1: sent status Failure'];
  assert.deepEqual(changes([...lines, '1: close "a" bytes read 0 written 5']), ['cut-off a']);
});

test('a process that was killed does not hold up the upload that takes the place of its own', () => {
  const lines = [
    '1: session opened for local user u from [::1]',
    '1: open "/files/a" flags WRITE,CREATE,TRUNCATE mode 0644',
    '2: session opened for local user u from [::1]',
    '2: open "/files/a" flags WRITE,CREATE,TRUNCATE mode 0644',
    '2: close "/files/a" bytes read 0 written 5',
  ];
  assert.deepEqual(changes(lines, { alive: true }), []);
  assert.deepEqual(changes(lines, { alive: false }), ['closed a']);
});

test('a refused write makes the close worthless, also when the client has gone before we look', () => {
  const lines = [
    opened(1),
    `1: open "/files/a" ${WRITE}`,
    '1: error: process_write: write "/files/a": No space left on device',
    '1: sent status Failure',
    '1: close "/files/a" bytes read 0 written 0',
  ];
  assert.deepEqual(changes(lines, { held: false }), ['cut-off a']);
});
