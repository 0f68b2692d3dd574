/** Other contents of the same size and time: the ctime, or what the log says of it, shows that a file has changed. */
import { chmodSync, lstatSync, renameSync, truncateSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { observationOf } from '../../../../src/arrivals/uploads/log/line-owners.ts';
import { readEvent } from '../../../../src/arrivals/uploads/log/log-line.ts';
import { systemClock } from '../../../../src/foundation/base/clock.ts';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

const CLOSE = 'close "a" bytes read 0 written 5';
const IN_PLACE = 'open "a" flags WRITE mode 0644';

/** Longer than a line may be late. */
const LONG = 2100;

async function uploaded() {
  const at = await recordingPlace({ isTemporary: (path) => path.endsWith('.part') });
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, CLOSE);
  await at.comesTo(['a 5'], ['a 5 uploaded']);
  return at;
}

test('a size is set that the file has already, and its mode is changed: no new upload', async () => {
  await using at = await uploaded();
  truncateSync(join(at.files, 'a'), 5);
  at.logged(1, 'set "a" size 5');
  await at.parting.drained();
  chmodSync(join(at.files, 'a'), 0o640);
  at.touch('a');
  await at.settles(['a 5'], ['a 5 uploaded']);
});

test('another size is set, and then the old one: a new upload', async () => {
  await using at = await uploaded();
  truncateSync(join(at.files, 'a'), 3);
  at.logged(1, 'set "a" size 3');
  truncateSync(join(at.files, 'a'), 5);
  at.logged(1, 'set "a" size 5');
  await at.settles(['a 5', 'a 5'], ['a 5 uploaded']);
});

test('overwritten with as many bytes and dated like the first upload: a second one', async () => {
  await using at = await uploaded();
  at.write('a', 'yyyyy');
  utimesSync(join(at.files, 'a'), 1_500_000_000, 1_500_000_000);
  at.logged(1, `open "a" ${WRITE}`, 'set "a" modtime 20170714-02:40:00', CLOSE);
  await at.settles(['a 5', 'a 5'], ['a 5 uploaded']);
});

test('the process dies while it writes an upload again that was not recorded before: partial', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, CLOSE, IN_PLACE);
  await at.parting.drained();
  at.gone(1);
  await at.settles(['a 5'], ['a 5 partial']);
});

for (const [when, ms, state] of [
  ['right after', 0, 'partial'],
  ['long after', LONG, 'uploaded'],
] as const) {
  test(`the process dies with a file open that it opened ${when} its last change: ${state}`, async () => {
    await using at = await uploaded();
    await wait(ms);
    at.logged(1, IN_PLACE);
    await at.parting.drained();
    at.gone(1);
    await at.settles(['a 5'], [`a 5 ${state}`]);
  });
}

test('the log is late, and a file of which half is written has taken the name of the first: partial', async () => {
  await using at = await uploaded();
  await wait(LONG);
  // The row is of the second file already.
  at.logged(1, `open "b" ${WRITE}`, 'posix-rename old "b" new "a"', 'stat name "a"');
  await at.parting.drained();
  at.gone(1);
  await at.settles(['a 5'], ['a 5 partial']);
});

test('the process dies while it writes an upload again that it has just renamed: partial', async () => {
  await using at = await recordingPlace({ isTemporary: (path) => path.endsWith('.part') });
  at.write('a.part', 'xxxxx');
  at.logged(1, `open "a.part" ${WRITE}`, 'close "a.part" bytes read 0 written 5');
  await at.comesTo([], ['a.part 5 waiting']);
  renameSync(join(at.files, 'a.part'), join(at.files, 'a'));
  at.logged(1, 'rename old "a.part" new "a"', IN_PLACE);
  await at.parting.drained();
  at.gone(1);
  await at.settles(['a 5'], ['a 5 partial']);
});

/** What was uploaded as `a` is at `b`, with an old date, and another file has its name. */
async function replaced() {
  const at = await uploaded();
  renameSync(join(at.files, 'a'), join(at.files, 'b'));
  utimesSync(join(at.files, 'b'), 1_500_000_000, 1_500_000_000);
  at.write('a', 'x'.repeat(9));
  return at;
}

test('another file has the name when an open is read, and dates like those before are set: what the process has left is partial', async () => {
  await using at = await replaced();
  at.logged(1, IN_PLACE, 'rename old "a" new "b"', `open "a" ${WRITE}`, 'close "a" bytes read 0 written 9');
  await at.comesTo(['a 5', 'a 9'], ['a 9 uploaded', 'b 5 uploaded']);
  at.gone(1);
  await at.settles(['a 5', 'a 9'], ['a 9 uploaded', 'b 5 partial']);
});

test('and if that file was renamed to the name', async () => {
  await using at = await replaced();
  at.logged(1, IN_PLACE, 'rename old "a" new "b"', `open "c" ${WRITE}`, 'close "c" bytes read 0 written 9');
  const event = readEvent('posix-rename old "c" new "a"');
  const seen = [null, observationOf(lstatSync(join(at.files, 'a')))];
  at.parting.recorder.add(at.jail, { pid: 1, event, at: systemClock().now(), seen, isFresh: true });
  at.logged(1, 'stat name "a"');
  await at.comesTo(['a 5', 'c 9'], ['a 9 uploaded', 'b 5 uploaded']);
  at.gone(1);
  await at.settles(['a 5', 'c 9'], ['a 9 uploaded', 'b 5 partial']);
});

test('cut off while it was written in place, dated like before and renamed, and its lines are read when another file has its name: partial', async () => {
  await using at = await recordingPlace();
  const write = (data: string): void => {
    at.write('a', data);
    utimesSync(join(at.files, 'a'), 1_500_000_000, 1_500_000_000);
  };
  write('xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'set "a" modtime 20170714-02:40:00', CLOSE);
  await at.comesTo(['a 5'], ['a 5 uploaded']);
  write('yyyyy');
  renameSync(join(at.files, 'a'), join(at.files, 'b'));
  at.write('a', 'z');
  at.logged(1, IN_PLACE, 'rename old "a" new "b"', `open "c" ${WRITE}`, 'close "c" bytes read 0 written 1');
  at.logged(1, 'rename old "c" new "a"', 'stat name "a"', 'forced close "a" bytes read 0 written 3');
  await at.settles(['a 5', 'c 1'], ['a 1 uploaded', 'b 5 partial']);
});
