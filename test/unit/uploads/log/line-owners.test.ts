/** Which of sshd's lines the journal gets, and for which paths it notes the status. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pathsToLookAt } from '../../../../src/arrivals/uploads/log/line-owners.ts';
import { readEvent } from '../../../../src/arrivals/uploads/log/log-line.ts';

/** For each line of a session its paths, or undefined when the journal leaves it out. */
function kept(...lines: string[]): (readonly string[] | undefined)[] {
  const owner = { lastPaths: undefined };
  return lines.map((line) => pathsToLookAt(readEvent(line), owner));
}

const OPEN = 'open "/files/a" flags WRITE,CREATE,TRUNCATE mode 0666';
const SET = 'set "/files/a" size 7';

test('requests for the status of files and their refusals are left out', () => {
  const lines = ['realpath "."', 'stat name "/files/a"', 'sent status No such file', 'lstat name "/files/a"'];
  assert.deepEqual(kept(...lines), [undefined, undefined, undefined, undefined]);
});

test('the line after a request that may be refused is kept, because it says whether it was', () => {
  for (const request of [OPEN, 'rename old "/files/a" new "/files/b"', 'remove name "/files/a"', SET]) {
    const [paths] = kept(request);
    assert.deepEqual(kept(request, 'stat name "/files/c"', 'sent status No such file'), [paths, [], undefined]);
    assert.deepEqual(kept(request, 'sent status No such file', 'stat name "/files/c"'), [paths, [], undefined]);
  }
});

test('a refusal is always kept with the paths of the request before it, because it may answer a write', () => {
  assert.deepEqual(kept('stat name "/files/a"', 'sent status Failure'), [undefined, []]);
  const rename = 'rename old "/files/a" new "/files/b"';
  assert.deepEqual(kept(rename, 'sent status Failure', 'sent status Failure'), [['a', 'b'], ['a', 'b'], []]);
});
