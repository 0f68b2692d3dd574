/**
 * Files that are larger than what was written, in sessions with a refused request: cut short by a full disk, or not.
 */
import assert from 'node:assert/strict';
import { closeSync, ftruncateSync, lstatSync, mkdirSync, openSync, renameSync, rmdirSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { test } from 'node:test';
import { partialFiles, reasonOf } from '../../../../src/arrivals/files/partial.ts';
import { observationOf } from '../../../../src/arrivals/uploads/log/line-owners.ts';
import { readEvent } from '../../../../src/arrivals/uploads/log/log-line.ts';
import { systemClock } from '../../../../src/foundation/base/clock.ts';
import { until } from '../../../support/poll.ts';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

type Place = Awaited<ReturnType<typeof recordingPlace>>;

/** Larger than a block, so that a hole shows. */
const FAR = 100_000;

/** Writes 100 bytes at an offset. */
function writeAt(at: Place, offset: number): void {
  const fd = openSync(join(at.files, 'a'), 'w');
  writeSync(fd, 'x'.repeat(100), offset);
  closeSync(fd);
}

const OPEN = `open "a" ${WRITE}`;
const CLOSE = 'close "a" bytes read 0 written 100';
const MKDIR = 'mkdir name "d" mode 0777';

/** Makes a folder and a file that are older than any line about them can be late. */
async function makeOld(at: Place): Promise<void> {
  mkdirSync(join(at.files, 'd'));
  at.write('c', 'x');
  await wait(2100);
}

test('a file with a hole, and a refused request: complete', async () => {
  await using at = await recordingPlace();
  writeAt(at, FAR);
  at.logged(1, OPEN, 'sent status Failure', CLOSE);
  await at.comesTo([`a ${FAR + 100}`], [`a ${FAR + 100} uploaded`]);
});

test('a hole that is too small to show, and what is there still shows that a change was refused: complete', async (t) => {
  await using at = await recordingPlace();
  await makeOld(at);
  at.write('b', 'x');
  const announced: string[] = [];
  for (const request of [
    MKDIR,
    'rmdir name "d"',
    'remove name "d"',
    'rename old "b" new "c"',
    'rename old "b" new "b"',
    'rename old "d" new "d/e"',
  ]) {
    await t.test(request, async () => {
      const offset = 1000 + announced.length;
      writeAt(at, offset);
      at.logged(1, OPEN, request, 'sent status Failure', CLOSE);
      await at.parting.drained();
      announced.push(`a ${offset + 100}`);
      assert.deepEqual(
        (await at.announced()).filter((each) => each.startsWith('a')),
        announced,
      );
    });
  }
});

test('the client set the size while writing: complete', async () => {
  await using at = await recordingPlace();
  writeAt(at, 0);
  const fd = openSync(join(at.files, 'a'), 'r+');
  ftruncateSync(fd, 1000);
  closeSync(fd);
  at.logged(1, OPEN, 'set "a" size 1000', 'sent status Failure', CLOSE);
  await at.comesTo(['a 1000'], ['a 1000 uploaded']);
});

test('the client set the size while writing, and a write behind that may have been cut short: partial', async () => {
  await using at = await recordingPlace();
  at.write('a', 'x'.repeat(1100));
  at.logged(1, OPEN, 'set "a" size 1000', 'sent status Failure', CLOSE);
  await at.comesTo([], ['a 1100 partial']);
});

/** More was written than the log has counted: the disk was full for a part of a write. */
for (const [title, lines] of [
  ['a refusal that nothing explains', ['sent status Failure']],
  ['a folder was made before it', [MKDIR, 'sent status Failure']],
  ['a folder was removed before it', ['rmdir name "e"', 'sent status Failure']],
  ['a folder was there already, and then something else was refused', [MKDIR, ...Array(2).fill('sent status Failure')]],
] as const) {
  test(`no hole: ${title}: partial, and the reason says what is known`, async () => {
    await using at = await recordingPlace();
    if (title.includes('already')) await makeOld(at);
    at.write('a', 'x'.repeat(130));
    at.logged(1, OPEN);
    if (title.includes('was made')) mkdirSync(join(at.files, 'd'));
    if (title.includes('removed')) {
      mkdirSync(join(at.files, 'e'));
      rmdirSync(join(at.files, 'e'));
    }
    at.logged(1, ...lines, CLOSE);
    await at.comesTo([], ['a 130 partial']);
    const [file] = await partialFiles(at.database.reads, { limit: 1 });
    assert.ok(file);
    assert.equal(
      reasonOf(file),
      'the session from 127.0.0.1 closed it, and a write may have been cut short: a request was refused, and the file is larger ' +
        'than what was written',
    );
  });
}

test('no hole: what is there may be newer than the request, or replaced itself: partial', async () => {
  await using at = await recordingPlace();
  mkdirSync(join(at.files, 'd'));
  at.write('b', 'x');
  const requests = ['rmdir name "d"', 'remove name "b"', 'rename old "d" new "b"', 'posix-rename old "b" new "b"'];
  for (const [index, request] of requests.entries()) {
    const name = `f${index}`;
    at.write(name, 'x'.repeat(130));
    at.logged(1, `open "${name}" ${WRITE}`, request, 'sent status Failure');
    at.logged(1, `close "${name}" bytes read 0 written 100`);
  }
  await at.parting.drained();
  assert.deepEqual(await at.announced(), []);
  assert.deepEqual(
    (await at.rows()).filter((row) => row.startsWith('f')),
    requests.map((_, index) => `f${index} 130 partial`),
  );
});

test('a write that sshd refuses: the reason names the refusal, not a lost connection', async () => {
  await using at = await recordingPlace();
  at.write('a', 'x'.repeat(100));
  at.logged(1, OPEN, 'error: process_write: write "a": No space left on device', 'sent status Failure', CLOSE);
  await at.comesTo([], ['a 100 partial']);
  const [file] = await partialFiles(at.database.reads, { limit: 1 });
  assert.ok(file);
  assert.equal(
    reasonOf(file),
    'the session from 127.0.0.1 closed it, and the server had refused a write, as on a full disk',
  );
});

test('what withheld a file is read again after a crash: it stays partial, and nothing is announced', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  const read = (): void => {
    at.parting.recorder.repeated(before + 2);
    [OPEN, 'sent status Failure', 'close "a" bytes read 0 written 0'].forEach((text, index) =>
      at.parting.recorder.add(at.jail, { pid: 1, event: readEvent(text), at: before + index, isFresh: true }),
    );
  };
  at.logged(1);
  const before = systemClock().now();
  read();
  await at.comesTo([], ['a 5 partial']);
  read();
  await at.settles([], ['a 5 partial']);
});

test('a partial file was renamed and replaced, and its lines are read again after a crash: what has replaced it stays', async () => {
  await using at = await recordingPlace();
  const before = systemClock().now();
  let count = 0;
  const say = (name: string | undefined, ...texts: string[]): void => {
    const found = name === undefined ? undefined : lstatSync(join(at.files, name));
    const seen = [found ? observationOf(found) : null];
    for (const text of texts) at.wasLogged(text, before + count++, seen);
  };
  const refused = [OPEN, 'error: process_write: write "a": No space left on device', 'sent status Failure', CLOSE];
  const lines = [...refused, 'posix-rename old "a" new "b"', 'stat name "b"'];
  at.write('a', 'x'.repeat(100));
  at.logged(1);
  renameSync(join(at.files, 'a'), join(at.files, 'b'));
  say('b', ...lines);
  await at.comes([], ['b 100 partial']);
  const seen = [observationOf(lstatSync(join(at.files, 'b')))];
  at.write('d', 'x'.repeat(9));
  renameSync(join(at.files, 'd'), join(at.files, 'b'));
  at.touch('b');
  await at.comes(['b 9'], ['b 9 uploaded']);
  at.parting.recorder.repeated(before + count);
  lines.forEach((text, index) => at.wasLogged(text, before + index, seen));
  // The inode of an upload is mistaken for that of the file, which has the name by now.
  say('b', `open "c" ${WRITE}`, 'close "c" bytes read 0 written 7');
  say(undefined, `open "c" ${WRITE}`, 'close "c" bytes read 0 written 8');
  await at.parting.drained();
  at.touch('b');
  await until('c has gone', async () => (await at.rows()).length === 1);
  assert.deepEqual(
    (await at.announced()).filter((each) => each.startsWith('b')),
    ['b 9'],
  );
  assert.deepEqual(await at.rows(), ['b 9 uploaded']);
});
