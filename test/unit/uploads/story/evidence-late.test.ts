/** The log is read late: files change while berth inspects them, or have other names already. */
import assert from 'node:assert/strict';
import { lstatSync, mkdirSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import type { Observation } from '../../../../src/arrivals/uploads/log/journal-record.ts';
import { observationOf } from '../../../../src/arrivals/uploads/log/line-owners.ts';
import { systemClock } from '../../../../src/foundation/base/clock.ts';
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

// The log is read when the files have other names already.

/** Every later line waits for almost a second, because nothing shows what came of it. */
const PENDING = 'rename old "x" new "y"';

const isTemporary = (path: string): boolean => path.endsWith('.part');

test('a half of the same size and time takes the name of an upload before that is recorded: the upload is announced', async () => {
  await using at = await recordingPlace({ isTemporary, isHeld: () => true });
  const [part, final] = [join(at.files, 'a.part'), join(at.files, 'a')];
  at.write('a.part', 'xxxxx');
  const { atime, mtime } = statSync(part);
  at.logged(1, `open "a.part" ${WRITE}`);
  await at.parting.drained();
  renameSync(part, final);
  at.logged(2, PENDING);
  at.logged(1, 'close "a.part" bytes read 0 written 5', 'posix-rename old "a.part" new "a"');
  await wait(20);
  // It is sent again, and the session still has it open.
  at.write('a.part', 'xxxxx');
  utimesSync(part, atime, mtime);
  renameSync(part, final);
  await at.settles(['a 5'], ['a 5 uploaded']);
});

test('a folder was renamed when an open in it was read, and the process dies: the file is partial', async () => {
  let isHeld = true;
  const held = { path: 'e/a.part', inode: 0 };
  await using at = await recordingPlace({
    isTemporary,
    isHeld: () => isHeld,
    isDead: () => !isHeld,
    heldBy: () => [held],
  });
  mkdirSync(join(at.files, 'e'));
  at.write('e/a.part', 'xxxxx');
  held.inode = statSync(join(at.files, 'e/a.part')).ino;
  at.logged(1, `open "d/a.part" ${WRITE}`, 'stat name "b"');
  at.touch('e/a.part');
  await wait(100);
  isHeld = false;
  // The next look comes before the death is noticed.
  await wait(2500);
  at.gone(1);
  await at.settles([], ['e/a.part 5 partial']);
});

test('a half in a folder that was renamed by then has the times of the upload before: it is partial', async () => {
  let isDead = false;
  await using at = await recordingPlace({ isTemporary, isDead: () => isDead });
  mkdirSync(join(at.files, 'd'));
  at.write('d/a', 'xxxxx');
  at.logged(1, `open "d/a" ${WRITE}`, 'close "d/a" bytes read 0 written 5');
  await at.comesTo(['d/a 5'], ['d/a 5 uploaded']);
  const { atime, mtime } = statSync(join(at.files, 'd/a'));
  at.write('d/a.part', 'xxxxx');
  utimesSync(join(at.files, 'd/a.part'), atime, mtime);
  renameSync(join(at.files, 'd/a.part'), join(at.files, 'd/a'));
  renameSync(join(at.files, 'd'), join(at.files, 'e'));
  at.logged(2, `open "d/a.part" ${WRITE}`, 'set "d/a.part" modtime 20170714-02:40:00');
  at.logged(1, 'posix-rename old "d" new "e"', 'stat name "e"');
  at.logged(2, 'posix-rename old "d/a.part" new "d/a"');
  await at.parting.drained();
  isDead = true;
  at.touch('e/a');
  await wait(100);
  at.gone(2);
  await at.settles(['d/a 5'], ['e/a 5 partial']);
});

test('a doubted upload is read again after a crash, when its name has a later one: that is announced once', async () => {
  await using at = await recordingPlace({ isTemporary });
  const before = systemClock().now();
  const lines = [
    `open "a" ${WRITE}`,
    'sent status Failure',
    'close "a" bytes read 0 written 0',
    `open "a.part" ${WRITE}`,
    'posix-rename old "a.part" new "a"',
    `open "a.part" ${WRITE}`,
    'close "a.part" bytes read 0 written 5',
    'posix-rename old "a.part" new "a"',
    'stat name "a"',
  ];
  const read = (): void => {
    at.parting.recorder.repeated(before + lines.length);
    lines.forEach((text, index) => at.wasLogged(text, before + index));
  };
  at.logged(1);
  at.write('a', 'xxxxx');
  read();
  await at.comes(['a 5'], ['a 5 uploaded']);
  read();
  await at.stays(['a 5'], ['a 5 uploaded']);
});

test('two handles have one name, the file of one of them was seen, and the connection breaks: that file is partial', async () => {
  await using at = await recordingPlace();
  at.logged(1, `open "a" ${WRITE}`, 'rename old "a" new "b"', 'stat name "b"');
  await at.parting.drained();
  at.write('a', 'x'.repeat(9));
  at.logged(1, 'open "a" flags WRITE mode 0644');
  await at.parting.drained();
  renameSync(join(at.files, 'a'), join(at.files, 'c'));
  at.logged(1, 'posix-rename old "a" new "c"', 'stat name "c"');
  await at.parting.drained();
  at.logged(1, 'forced close "a" bytes read 0 written 5', 'session closed for local user someone');
  await at.settles([], ['c 9 partial']);
});

test('a file gets a final name and then its temporary one again: announced with the final name', async () => {
  await using at = await committingPlace({ isTemporary });
  const [part, final] = [join(at.files, 'a.part'), join(at.files, 'a')];
  at.write('a.part', 'xxxxx');
  at.logged(1, `open "a.part" ${WRITE}`);
  await at.parting.drained();
  renameSync(part, final);
  at.duringCommit(() => {
    renameSync(final, part);
    at.logged(1, 'rename old "a" new "a.part"', 'stat name "a"');
  });
  at.logged(1, 'close "a.part" bytes read 0 written 5', 'posix-rename old "a.part" new "a"');
  await at.settles(['a 5'], ['a.part 5 uploaded']);
});

test('a file has its final name when its open is read, and gets its temporary one again: announced with the final name', async () => {
  await using at = await committingPlace({ isTemporary });
  const [part, final] = [join(at.files, 'a.part'), join(at.files, 'a')];
  at.write('a', 'xxxxx');
  const found = observationOf(lstatSync(final));
  const say = (text: string, seen: readonly (Observation | null)[]): void =>
    at.wasLogged(text, systemClock().now(), seen);
  at.logged(1);
  say(`open "a.part" ${WRITE}`, [null]);
  say('close "a.part" bytes read 0 written 5', [null]);
  say('posix-rename old "a.part" new "a"', [found, null]);
  at.duringCommit(() => {
    renameSync(final, part);
    say('rename old "a" new "a.part"', [found, null]);
    say('stat name "a"', []);
  });
  await at.settles(['a 5'], ['a.part 5 uploaded']);
});

test('an open file cannot be renamed onto an upload, and then replaces it, before that is read: the upload is announced', async () => {
  await using at = await recordingPlace({ isTemporary });
  at.write('a', 'xxxxx');
  at.write('a.part', 'xxx');
  at.logged(1, `open "a" ${WRITE}`, `open "a.part" ${WRITE}`);
  await at.parting.drained();
  at.logged(2, PENDING);
  renameSync(join(at.files, 'a.part'), join(at.files, 'a'));
  at.logged(1, 'close "a" bytes read 0 written 5', 'rename old "a.part" new "a"', 'sent status Failure');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 7', 'posix-rename old "a.part" new "a"');
  at.logged(1, 'forced close "a.part" bytes read 0 written 3', 'session closed for local user someone');
  await at.settles(['a 5', 'a 7'], ['a 3 partial']);
});

test('a folder is not renamed onto one with files, although a file in it is there by the time that is read', async () => {
  await using at = await recordingPlace();
  mkdirSync(join(at.files, 'd'));
  mkdirSync(join(at.files, 'e'));
  at.write('e/a', 'xxxxx');
  at.logged(1, `open "e/a" ${WRITE}`, `open "d/b" ${WRITE}`);
  await at.parting.drained();
  at.write('d/b', 'x'.repeat(7));
  renameSync(join(at.files, 'e/a'), join(at.files, 'd/a'));
  renameSync(join(at.files, 'e'), join(at.files, 'f'));
  at.logged(1, 'posix-rename old "e" new "d"', 'sent status Failure', 'close "d/b" bytes read 0 written 7');
  at.logged(1, 'posix-rename old "e/a" new "d/a"', 'close "e/a" bytes read 0 written 5');
  at.logged(1, 'posix-rename old "e" new "f"', 'stat name "f"');
  await at.settles(['d/b 7', 'd/a 5'], ['d/a 5 uploaded', 'd/b 7 uploaded']);
});

// Rows of files below renamed folders, and the row of a file whose name a folder takes.

test('a folder takes the name of a cut upload that is removed, and another one at once: no row stays', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'forced close "a" bytes read 0 written 5');
  await at.comesTo([], ['a 5 partial']);
  rmSync(join(at.files, 'a'));
  mkdirSync(join(at.files, 'b'));
  at.logged(2, 'remove name "a"', 'mkdir name "a" mode 0777', 'rename old "a" new "b"');
  await at.comesTo([], []);
});

test('a folder is renamed many times before a look: the rows below it follow', async () => {
  await using at = await recordingPlace();
  mkdirSync(join(at.files, 'd0'));
  at.write('d0/a', 'xxxxx');
  at.logged(1, `open "d0/a" ${WRITE}`, 'close "d0/a" bytes read 0 written 5');
  await at.comesTo(['d0/a 5'], ['d0/a 5 uploaded']);
  for (let i = 0; i < 20; i++) at.logged(1, `rename old "d${i}" new "d${i + 1}"`);
  renameSync(join(at.files, 'd0'), join(at.files, 'd20'));
  await at.comesTo(['d0/a 5'], ['d20/a 5 uploaded']);
});

test('a folder is renamed right after a file in it was opened, by the log before, and a write may have been cut short: partial', async () => {
  await using at = await recordingPlace();
  mkdirSync(join(at.files, 'f'));
  at.write('f/a', 'x'.repeat(19));
  at.logged(2, 'rename old "d" new "f"', 'stat name "f"');
  at.logged(1, `open "d/a" ${WRITE}`, 'sent status Failure', 'close "d/a" bytes read 0 written 0');
  await at.parting.drained();
  at.touch('f/a');
  await at.settles([], ['f/a 19 partial']);
});

for (const [refused, lines, announced] of [
  ['an exclusive open', ['open "d/a" flags WRITE,CREATE,EXCL mode 0644', 'sent status Failure'], ['d/a 9', 'f/a 10']],
  ['a request', ['sent status Failure'], ['f/a 10']],
] as const)
  test(`${refused} is refused, and the file's size is set once its folder has another name: announced with that size`, async () => {
    await using at = await recordingPlace();
    mkdirSync(join(at.files, 'd'));
    at.write('d/a', 'xxxx');
    at.logged(1, `open "d/a" ${WRITE}`, ...lines);
    await at.parting.drained();
    renameSync(join(at.files, 'd'), join(at.files, 'f'));
    at.write('f/a', 'x'.repeat(10));
    at.logged(1, 'close "d/a" bytes read 0 written 9', 'set "d/a" size 10');
    await at.parting.drained();
    at.logged(2, 'rename old "d" new "f"', 'stat name "f"');
    await at.parting.drained();
    at.touch('f/a');
    await at.settles([...announced], ['f/a 10 uploaded']);
  });
