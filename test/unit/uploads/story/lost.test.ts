/** Which lost upload a file is of. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Doubts } from '../../../../src/arrivals/uploads/record/doubts.ts';
import { STALE_MTIME, UNKNOWN_INODE } from '../../../../src/arrivals/uploads/record/file-stat.ts';
import type { FileRow } from '../../../../src/arrivals/uploads/record/files.ts';
import { Lost } from '../../../../src/arrivals/uploads/story/lost.ts';
import { LostEndings } from '../../../../src/arrivals/uploads/story/lost-endings.ts';
import type { Ending } from '../../../../src/arrivals/uploads/story/operations.ts';
import { SECOND } from '../../../../src/foundation/base/clock.ts';

const AT = 1_790_000_000_000_000;

const CUT_OFF: Ending = {
  isComplete: false,
  isRefused: false,
  at: AT,
  by: { pid: 1, address: '' },
  openedAt: AT - 5000,
  bytes: undefined,
  written: 0,
  isUnwritten: false,
  isReserved: false,
  isDoubted: false,
  isUnproven: false,
  inode: 7,
  bornMs: (AT - 5000) / 1000,
  order: 1,
};

/** Of an upload whose file was not seen: the log says that it is at that path. */
const ROW: FileRow = {
  id: 'f',
  directory_id: 'd',
  path: Buffer.from('a'),
  size_bytes: 4,
  state: 'waiting',
  uploaded_at: AT + 1000,
  inode: 9,
  mtime: STALE_MTIME,
  ctime: null,
  returns_to: null,
  named_at: 0,
  check_failure: null,
  source: 'log',
  session_pid: 1,
};

for (const [what, bornAt, mtime, isIt] of [
  ['of the same birth', AT - 5000, AT - 1000, true],
  ['of the same birth, whose times a client has set since', AT - 5000, 1_500_000_000_000_000, true],
  ['that was born later', AT - 2000, AT - 1000, false],
] as const) {
  test(`a file with the inode of a cut upload, ${what}: ${isIt ? 'it' : 'another one'}`, () => {
    const lost = new Lost();
    lost.addEnding('d', CUT_OFF);
    const stat = { inode: 7, size_bytes: 5, mtime, ctime: AT, changedAt: AT, bornAt };
    assert.equal(lost.endingOf('d', 'a', stat, undefined, []), isIt ? CUT_OFF : undefined);
  });
}

for (const [what, bornAt, isIt] of [
  ['was created while it was open', AT - 4000, true],
  ['is older', AT - 9_000_000, false],
] as const) {
  test(`a file with the inode of an upload whose name the log has cut off, and an older time, ${what}: ${isIt ? 'it' : 'another one'}`, () => {
    const lost = new Lost();
    const whole = { ...CUT_OFF, isComplete: true, isOfUnknownSize: true, bornMs: undefined };
    lost.addEnding('d', whole);
    const stat = { inode: 7, size_bytes: 5, mtime: 1_500_000_000_000_000, ctime: AT, changedAt: AT, bornAt };
    assert.equal(lost.endingOf('d', 'a', stat, undefined, []), isIt ? whole : undefined);
  });
}

for (const [what, ending] of [
  ['that was cut off', { ...CUT_OFF, isDoubted: true }],
  ['whose last write may have been cut short', { ...CUT_OFF, isComplete: true, bytes: 3, written: 3, isDoubted: true }],
] as const) {
  test(`an upload ${what} is not at a path to which the log has brought a later one`, () => {
    const lost = new Lost();
    lost.addEnding('d', ending);
    const stat = { inode: 7, size_bytes: 5, mtime: AT - 1000, ctime: AT, changedAt: AT, bornAt: AT - 5000 };
    assert.equal(lost.endingOf('d', 'a', stat, ROW, []), undefined);
    assert.equal(lost.endingOf('d', 'a', stat, { ...ROW, state: 'partial' }, []), ending);
    assert.equal(lost.endingOf('d', 'b', stat, undefined, []), ending);
  });
}

for (const [what, bornAt, isIt] of [
  ['while a handle that was taken for an earlier one had it open', AT - 1_000_000, true],
  ['later', AT + 1000, false],
] as const) {
  test(`a file that was seen when it was cut off, and was created ${what}: ${isIt ? 'it' : 'another one'}`, () => {
    const lost = new Lost();
    const seen = { inode: 7, size_bytes: 5, mtime: AT - 1000, ctime: AT - 1000 };
    const half = { ...CUT_OFF, openedAt: AT - 9_000_000, isOfUnknownSize: true, bornMs: undefined, seen };
    lost.addEnding('d', half);
    const stat = { ...seen, changedAt: AT, bornAt };
    assert.equal(lost.endingOf('d', 'a', stat, undefined, []), isIt ? half : undefined);
  });
}

test('the folder of an upload whose name the log has cut off is renamed before its file is found: it is of that upload', () => {
  const lost = new Lost();
  const end = { ...CUT_OFF, inode: undefined, bornMs: undefined };
  lost.addEnding('d', end, { start: 'a/nnn', session: { hasSetCutOff: false } });
  const found = { inode: 8, mtime: AT, ctime: AT, size_bytes: 4, changedAt: AT, bornAt: AT - 5000 };
  assert.equal(lost.endingOf('d', 'b/g/nnnn', found, undefined, []), undefined);
  lost.moved('d', 'a', 'b/g');
  assert.equal(lost.endingOf('d', 'b/g/nnnn', found, undefined, []), end);
  assert.equal(lost.endingOf('d', 'a/nnnn', found, undefined, []), undefined);
});

test('a file that was cut off, and not written since, is not that of a complete upload whose name begins alike', () => {
  const lost = new Lost();
  const name = 'n'.repeat(500);
  const end: Ending = { ...CUT_OFF, isComplete: true, inode: undefined, bornMs: undefined, isOfUnknownSize: true };
  lost.addEnding('d', end, { start: name, session: { hasSetCutOff: true } });
  const stat = { inode: 9, size_bytes: 4, mtime: AT - 1000, ctime: AT, changedAt: AT, bornAt: AT - 6000 };
  const row: FileRow = {
    ...ROW,
    path: Buffer.from(`${name}-half`),
    state: 'partial',
    mtime: AT - 1000,
    session_pid: null,
  };
  const path = `${name}-half`;
  assert.equal(lost.endingOf('d', path, stat, row, []), undefined);
  assert.equal(lost.endingOf('d', path, { ...stat, mtime: AT - 500 }, row, []), end);
});

test('a complete file was overwritten under a long name, and that was cut off, before its inode was found: cut off', () => {
  const lost = new Lost();
  const name = 'n'.repeat(500);
  lost.addAwaited('d', { ...CUT_OFF, isComplete: true, bytes: 2038, written: 38, isDoubted: true }, 'a');
  const cut: Ending = { ...CUT_OFF, at: AT + 30_000, openedAt: AT + 10_000, inode: undefined, bornMs: undefined };
  const stat = {
    inode: 7,
    size_bytes: 40,
    mtime: AT + 6000,
    ctime: AT + 6000,
    changedAt: AT + 6000,
    bornAt: AT - 5000,
  };
  assert.equal(lost.endingOf('d', name, stat, undefined, [])?.isComplete, true);
  lost.addEnding('d', cut, { start: name, session: { hasSetCutOff: true } });
  assert.equal(lost.endingOf('d', name, stat, undefined, []), cut);
});

test('an empty file is not that of a lost upload whose size nobody knows', () => {
  const lost = new Lost();
  const end = { ...CUT_OFF, isComplete: true, isOfUnknownSize: true, openedAt: undefined, inode: undefined, bornMs: 0 };
  lost.addEnding('d', end, { start: 'elsewhere/', session: { hasSetCutOff: false } });
  const stat = { inode: 8, size_bytes: 0, mtime: AT - 1000, ctime: AT - 1000, changedAt: AT - 1000, bornAt: AT - 2000 };
  assert.equal(lost.endingOf('d', 'a', stat, undefined, []), undefined);
});

test('the lines of a cut upload with a long name are read 30 s late: the half is its file', () => {
  const lost = new Lost();
  const name = 'n'.repeat(500);
  const cut: Ending = { ...CUT_OFF, inode: undefined, bornMs: undefined };
  lost.addEnding('d', cut, { start: name, session: { hasSetCutOff: false } });
  const written = AT - 30_000_000;
  const stat = { inode: 8, size_bytes: 4, mtime: written, ctime: written, changedAt: written, bornAt: written };
  assert.equal(lost.endingOf('d', name, stat, undefined, []), cut);
});

test('a client has set the times of a file whose row was removed before the file was seen: the row is its own', () => {
  const lost = new Lost();
  const removed = { ...ROW, inode: UNKNOWN_INODE };
  lost.addRow(removed);
  const stat = { inode: 9, size_bytes: 4, mtime: 1_500_000_000_000_000, ctime: AT + 2000 };
  assert.equal(lost.rowOf('d', stat, { wasSet: false, bornAt: 0 }), undefined);
  assert.equal(lost.rowOf('d', stat, { wasSet: true, bornAt: 0 }), removed);
  // It was created later.
  assert.equal(lost.rowOf('d', stat, { wasSet: true, bornAt: removed.uploaded_at + 1 }), undefined);
  assert.equal(lost.rowOf('d', { ...stat, size_bytes: 5 }, { wasSet: true, bornAt: 0 }), undefined);
});

test('the open of a cut-off name was read 1.5 s late: the file is still that of the upload', () => {
  const lost = new Lost();
  const end = { ...CUT_OFF, isComplete: true, inode: undefined, bornMs: undefined, isOfUnknownSize: true };
  lost.addEnding('d', end, { start: 'a/nnn', session: { hasSetCutOff: true } });
  const changedAt = AT - 1_505_000;
  const stat = { inode: 7, size_bytes: 5, mtime: 1_500_000_000_000_000, ctime: changedAt, changedAt, bornAt: 0 };
  assert.equal(lost.endingOf('d', 'a/nnnn', stat, undefined, []), end);
  assert.equal(lost.endingOf('d', 'a/nnnn', { ...stat, changedAt: changedAt - 1_500_000 }, undefined, []), undefined);
});

test('a look goes through the uploads that its file may be of, however much a user has left, and a directory has at most 1,000', () => {
  const endings = new LostEndings();
  const end = { ...CUT_OFF, inode: undefined, bornMs: undefined };
  const session = { hasSetCutOff: false };
  const nameOf = (i: number): string => `${i}-${'n'.repeat(200)}`;
  for (let i = 0; i < 1500; i++)
    endings.add({ end: { ...end, order: i }, cutOff: { start: `f${i % 10}/${nameOf(i)}`.slice(0, 100), session } });
  assert.equal(endings.size, 1000);
  const found = (path: string): number[] =>
    endings.of(path, { inode: 9, size_bytes: 4, mtime: AT }, undefined).map(({ end: { order } }) => order);
  assert.deepEqual(found(`f7/${nameOf(1007)}`), [1007]);
  // The oldest has been forgotten.
  assert.deepEqual(found(`f7/${nameOf(7)}`), []);
  // The log may have cut off the name of a folder, too.
  endings.add({ end: { ...end, order: 1500 }, cutOff: { start: nameOf(1).slice(0, 50), session } });
  assert.deepEqual(found(`${nameOf(1)}/f/a`), [1500]);
  endings.add({ end: { ...CUT_OFF, order: 1501, inode: 9 } });
  endings.add({ end: { ...end, order: 1502, bytes: 4 }, missingAt: 'g/a' });
  endings.add({ end: { ...end, order: 1503, bytes: 5 }, missingAt: 'g/a.part' });
  assert.deepEqual(found('h/a'), [1503, 1502, 1501]);
  endings.moved('f7', 'g/f');
  assert.deepEqual(found(`g/f/${nameOf(1007)}`), [1502, 1501, 1007]);
  assert.deepEqual(found(`f7/${nameOf(1007)}`), [1502, 1501]);
});

// What a crash of the machine makes doubtful.

/** In ms. */
const BOOT = 1_790_000_000_000;

for (const [what, file, isDoubted] of [
  ['not touched since the boot', { birthtimeMs: -9, mtimeMs: -9, ctimeMs: -9 }, true],
  ['renamed right after the boot', { birthtimeMs: -9, mtimeMs: -9, ctimeMs: 1000 }, true],
  ['renamed much later', { birthtimeMs: -9, mtimeMs: -9, ctimeMs: 100_000 }, false],
  ['written after the boot', { birthtimeMs: -9, mtimeMs: 900, ctimeMs: 1000 }, false],
  ['made after the boot, with older times', { birthtimeMs: 900, mtimeMs: -9, ctimeMs: 1000 }, false],
] as const) {
  test(`a file that was ${what} may be incomplete: ${isDoubted}`, () => {
    const doubts = new Doubts({ journal: { at: -Infinity }, boot: { at: BOOT * 1000, uptime: -Infinity } });
    const { birthtimeMs, mtimeMs, ctimeMs } = file;
    const times = { birthtimeMs: BOOT + birthtimeMs, mtimeMs: BOOT + mtimeMs, ctimeMs: BOOT + ctimeMs };
    assert.equal(doubts.has('d', times, BOOT * 1000 + 200 * SECOND), isDoubted);
  });
}
