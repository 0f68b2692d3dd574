/** A file that changes while berth inspects it. */
import assert from 'node:assert/strict';
import { mkdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { until } from '../../../support/poll.ts';
import { committingPlace, recordingPlace, WRITE } from '../../../support/recording-place.ts';

test('a file that is pointed at during the commit of a look, which it was changed after, is looked at again', async () => {
  await using at = await committingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  at.duringCommit(() => {
    at.write('a', 'x'.repeat(9));
    at.touch('a');
  });
  await at.comesTo(['a 5'], ['a 5 uploaded']);
  await at.settles(['a 5', 'a 9'], ['a 9 uploaded']);
});

test('berth stops while the file of an upload is being synced: it is recorded before that', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  await at.parting.close();
  assert.deepEqual([await at.announced(), await at.rows()], [['a 5'], ['a 5 uploaded']]);
});

test('a file was appended to, and another one has taken its name, twice: the appended one is announced', async () => {
  let unread: string[] = [];
  await using at = await recordingPlace({
    lag: 200,
    beforeCommit() {
      if (unread.length > 0) at.logged(1, ...unread);
      unread = [];
    },
  });
  at.write('c', 'x'.repeat(7));
  at.logged(1, `open "c" ${WRITE}`, 'forced close "c" bytes read 0 written 7');
  await at.comes([], ['c 7 partial']);
  renameSync(join(at.files, 'c'), join(at.files, 'a'));
  at.logged(1, 'open "a" flags WRITE,APPEND,CREATE mode 0644', 'close "a" bytes read 0 written 20');
  at.logged(1, 'rename old "a" new "b"', 'stat name "b"');
  await wait(50);
  renameSync(join(at.files, 'a'), join(at.files, 'b'));
  unread = ['rename old "c" new "a"', 'posix-rename old "a" new "b"', 'stat name "b"'];
  await at.settles(['a 20'], ['b 7 partial']);
});

test('a folder is renamed while berth waits for the log to learn the size of a file in it: announced with its size', async () => {
  let commits = 0;
  await using at = await recordingPlace({
    lag: 200,
    beforeCommit() {
      commits += 1;
      if (commits === 2) at.logged(1, 'rename old "d" new "e"', 'stat name "e"');
    },
  });
  mkdirSync(join(at.files, 'd'));
  at.write('d/a', 'x'.repeat(9));
  at.logged(1, `open "d/a" ${WRITE}`, 'close "d/a" bytes read 0 written 5');
  await until('the size is met', async () => commits === 1);
  renameSync(join(at.files, 'd'), join(at.files, 'e'));
  await at.settles(['d/a 9'], ['e/a 9 uploaded']);
});

test('an open file takes the name of an upload and is renamed on, before a new file of that name is appended to: it has its own size', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  await at.comesTo(['a 5'], ['a 5 uploaded']);
  at.write('b', 'x');
  renameSync(join(at.files, 'b'), join(at.files, 'c'));
  at.write('a', 'x'.repeat(9));
  at.logged(1, `open "b" ${WRITE}`, 'rename old "b" new "a"', 'rename old "a" new "c"', 'stat name "c"');
  at.logged(1, 'open "a" flags WRITE,APPEND,CREATE mode 0644', 'close "a" bytes read 0 written 7');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 9');
  await at.comesTo(['a 5', 'a 7', 'a 9'], ['a 9 uploaded']);
});

test('a smaller file that was cut off has taken the name of an upload whose file berth has not seen: it stays partial', async () => {
  await using at = await recordingPlace();
  at.logged(1, `open "a" ${WRITE}`);
  await at.parting.drained();
  at.write('b', 'xxxxx');
  at.logged(2, `open "b" ${WRITE}`);
  await at.parting.drained();
  renameSync(join(at.files, 'b'), join(at.files, 'a'));
  at.logged(2, 'forced close "b" bytes read 0 written 5', 'session closed for local user acme from [192.0.2.1]');
  at.logged(1, 'close "a" bytes read 0 written 20');
  await at.settles(['a 20'], ['a 5 partial']);
});
