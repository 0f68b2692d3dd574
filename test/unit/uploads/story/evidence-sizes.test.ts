/** Sizes and times of uploads whose files have changed since. */
import assert from 'node:assert/strict';
import { chmodSync, existsSync, lstatSync, renameSync, rmSync, statSync, truncateSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { observationOf } from '../../../../src/arrivals/uploads/log/line-owners.ts';
import { readEvent } from '../../../../src/arrivals/uploads/log/log-line.ts';
import { systemClock } from '../../../../src/foundation/base/clock.ts';
import { expireNow } from '../../../support/expire-now.ts';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

/** A recorded upload of 5 bytes that has just got 7 more, by a handle that is open still. */
async function appended() {
  const at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  await at.comesTo(['a 5'], ['a 5 uploaded']);
  at.logged(1, 'open "a" flags WRITE,APPEND mode 0644');
  at.write('a', 'x'.repeat(12));
  return at;
}

test('appended to and closed, and overwritten before a look: the size of each is its own', async () => {
  await using at = await appended();
  at.logged(1, 'close "a" bytes read 0 written 7', `open "a" ${WRITE}`);
  at.write('a', 'x'.repeat(20));
  at.logged(1, 'close "a" bytes read 0 written 20');
  await at.comesTo(['a 5', 'a 12', 'a 20'], ['a 20 uploaded']);
});

test('appended to, closed and removed before a look: announced with the size that it had', async () => {
  await using at = await appended();
  at.logged(1, 'close "a" bytes read 0 written 7');
  rmSync(join(at.files, 'a'));
  at.logged(1, 'remove name "a"');
  await at.comesTo(['a 5', 'a 12'], []);
});

test('a size is set by a name that a cut upload had before, and the log is late: the cut one stays partial', async () => {
  await using at = await recordingPlace();
  at.write('c', 'x'.repeat(20));
  // As if it had been written right before.
  utimesSync(join(at.files, 'c'), 2_000_000_000, 2_000_000_000);
  at.logged(1, `open "c" ${WRITE}`, 'close "c" bytes read 0 written 20', 'set "c" modtime 20330518-03:33:20');
  await at.comesTo(['c 20'], ['c 20 uploaded']);
  at.write('b', 'xxxxx');
  renameSync(join(at.files, 'c'), join(at.files, 'a'));
  at.logged(1, `open "a" ${WRITE}`, 'rename old "a" new "b"', 'rename old "c" new "a"', 'set "a" size 9');
  at.logged(1, 'forced close "a" bytes read 0 written 5', 'session closed for local user someone from [192.0.2.1]');
  await at.settles(['c 20'], ['a 20 uploaded', 'b 5 partial']);
  at.touch('b');
  await at.settles(['c 20'], ['a 20 uploaded', 'b 5 partial']);
});

test('a size is set through a handle, and the file is removed before a look: announced with that size', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  await at.comesTo(['a 5'], ['a 5 uploaded']);
  at.logged(1, 'open "a" flags WRITE mode 0644', 'set "a" size 12', 'close "a" bytes read 0 written 0');
  rmSync(join(at.files, 'a'));
  at.logged(1, 'remove name "a"');
  await at.comesTo(['a 5', 'a 12'], []);
});

// Other contents of the same size and time: the ctime, or what the log says of it, shows that a file has changed.

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

// When an upload arrived: at the close that completed it, whatever happens to other handles of its file.

type Place = Awaited<ReturnType<typeof recordingPlace>>;

const EXCLUSIVE = WRITE.replace('TRUNCATE', 'EXCL');

/** The upload of `a` arrived after `from`, is announced so, and outlives retention. */
async function arrivedSince(at: Place, from: number): Promise<void> {
  await at.comes(['a 5'], ['a 5 uploaded']);
  const { uploaded_at } = await at.db.selectFrom('files').select('uploaded_at').executeTakeFirstOrThrow();
  assert.ok(uploaded_at >= from && uploaded_at <= systemClock().now(), String(uploaded_at));
  const times = await at.db.selectFrom('transfers').select(['event', 'at']).where('at', '<', from).execute();
  assert.deepEqual(times, []);
  await expireNow(at);
  assert.ok(existsSync(join(at.files, 'a')), 'retention removed the file');
}

/** Two sessions open `a` for writing, and one of them closes it. */
async function writtenByTwo(at: Place): Promise<void> {
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`);
  at.logged(2, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  await at.parting.recorder.read(at.jail.id);
}

test('a refused open of another session ends last: the upload arrived when its own handle was closed', async () => {
  await using at = await recordingPlace();
  const from = systemClock().now();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`);
  at.logged(2, `open "a" ${EXCLUSIVE}`);
  at.logged(1, 'close "a" bytes read 0 written 5');
  at.logged(2, 'sent status Failure');
  await arrivedSince(at, from);
});

test('the kernel does not know a handle after a restart: the upload arrived when the other was closed', async () => {
  await using at = await recordingPlace();
  const from = systemClock().now();
  await writtenByTwo(at);
  at.parting.recorder.storyOf(at.jail).compareHandles(1, [])([], systemClock().now());
  await arrivedSince(at, from);
});

test('a session continues after its lines were lost: none of its times is 1970', async () => {
  await using at = await recordingPlace();
  const from = systemClock().now();
  await writtenByTwo(at);
  const story = at.parting.recorder.storyOf(at.jail);
  story.begin({ by: { pid: 1, address: '' }, openedAt: undefined, born: undefined }, systemClock().now());
  assert.equal(statSync(join(at.files, 'a')).size, 5);
  await arrivedSince(at, from);
});
