/** The log is read when the files have other names already. */
import { lstatSync, mkdirSync, renameSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { systemClock } from '../../../../src/foundation/base/clock.ts';
import type { Observation } from '../../../../src/arrivals/uploads/log/journal-record.ts';
import { observationOf } from '../../../../src/arrivals/uploads/log/line-owners.ts';
import { committingPlace, recordingPlace, WRITE } from '../../../support/recording-place.ts';

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
