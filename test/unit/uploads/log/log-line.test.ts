/** What internal-sftp's log lines mean, hostile names included. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fc } from '../../../support/fast-check.ts';
import { displayName, filePath, folderOf, temporaryNames } from '../../../../src/arrivals/uploads/file-path.ts';
import { pathsToLookAt } from '../../../../src/arrivals/uploads/log/line-owners.ts';
import { readEvent, readFrame, unvis } from '../../../../src/arrivals/uploads/log/log-line.ts';
import { Reads } from '../../../../src/arrivals/uploads/log/reads.ts';
import type { SessionNote } from '../../../../src/arrivals/uploads/record/transfer-history.ts';
import { SECOND } from '../../../../src/foundation/base/clock.ts';
import { readConfig } from '../../../../src/foundation/base/config.ts';

test('the lines that sshd writes are read', async (t) => {
  const lines: [string, unknown][] = [
    [
      'open "/files/a" flags WRITE,CREATE,TRUNCATE mode 0644',
      { kind: 'open', name: '/files/a', flags: ['WRITE', 'CREATE', 'TRUNCATE'] },
    ],
    [
      'close "/files/a" bytes read 0 written 12',
      { kind: 'close', name: '/files/a', forced: false, read: 0, written: 12 },
    ],
    ['forced close "a b" bytes read 1 written 2', { kind: 'close', name: 'a b', forced: true, read: 1, written: 2 }],
    ['rename old "/files/a" new "/files/b"', { kind: 'rename', from: '/files/a', to: '/files/b', replaces: false }],
    ['posix-rename old "a" new "b"', { kind: 'rename', from: 'a', to: 'b', replaces: true }],
    ['remove name "/files/a"', { kind: 'remove', name: '/files/a' }],
    ['set "/files/a" size 5', { kind: 'set', name: '/files/a', size: 5 }],
    ['set "/files/a" modtime 20261120-20:50:00', { kind: 'set', name: '/files/a', size: undefined }],
    ['set "/files/a" mode 0600', { kind: 'other' }],
    [
      'session opened for local user acme-1a2b3c4d from [::1]',
      { kind: 'session-opened', username: 'acme-1a2b3c4d', address: '::1' },
    ],
    ['session closed for local user acme-1a2b3c4d from [::1]', { kind: 'session-closed' }],
    ['sent status Failure', { kind: 'status', text: 'Failure' }],
    ['opendir "/files"', { kind: 'other' }],
  ];
  for (const [line, event] of lines) {
    await t.test(line, () => {
      assert.deepEqual(readEvent(line), event);
    });
  }
});

test('a name that imitates the end of a line does not end it', () => {
  assert.deepEqual(readEvent('close "x" bytes read 0 written 9" bytes read 0 written 5'), {
    kind: 'close',
    name: 'x" bytes read 0 written 9',
    forced: false,
    read: 0,
    written: 5,
  });
});

test('a rename whose names cannot be separated is unclear', () => {
  assert.equal(readEvent('rename old "a" new "b" new "c"').kind, 'unclear');
});

test('a line as long as sshd makes them may be cut, and is unclear', () => {
  const line = `forced close "/files/${'ä'.repeat(600)}`.slice(0, 500);
  assert.deepEqual(readEvent(line), { kind: 'unclear', about: 'forced close', start: unvis(line.slice(14)) });
});

test('the frame tells the process; what other programs log is not ours', () => {
  assert.equal(readFrame('<38>Nov  1 02:03:04 internal-sftp[77]: session closed for local user a from [b]')?.pid, 77);
  assert.equal(readFrame('<38>Nov 21 02:03:04 su[77]: session closed for local user a from [b]'), undefined);
  assert.equal(readFrame('nonsense'), undefined);
});

test('vis: any bytes come back as they were', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      const original = Buffer.from(bytes.filter((byte) => byte !== 0));
      assert.deepEqual(Buffer.from(unvis(vis(original)), 'latin1'), original);
    }),
  );
});

test('no name makes one line look like an event of another name', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 40 }), fc.nat(), (text, written) => {
      const bytes = Buffer.from(text.replaceAll('\0', ''));
      const event = readEvent(`close "${vis(bytes)}" bytes read 0 written ${written}`);
      assert.deepEqual(event, { kind: 'close', name: bytes.toString('latin1'), forced: false, read: 0, written });
    }),
  );
});

/** The encoder as openbsd-compat/vis.c has it, for the flags that log.c uses. */
function vis(bytes: Buffer): string {
  const short: Record<number, string> = { 10: 'n', 13: 'r', 8: 'b', 7: 'a', 11: 'v', 9: 't', 12: 'f' };
  return [...bytes]
    .map((byte) => {
      if (byte === 92) return '\\\\';
      if (byte >= 32 && byte < 127) return String.fromCharCode(byte);
      const letter = short[byte];
      return letter ? `\\${letter}` : `\\${byte.toString(8).padStart(3, '0')}`;
    })
    .join('');
}

// Which of sshd's lines the journal gets, and for which paths it notes the status.

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

// What the history keeps of a session's reads.

const START = 1_800_000_000 * SECOND;

function read(path: string, seconds: number, bytes = 5): SessionNote {
  const at = START + seconds * SECOND;
  return { event: 'downloaded', directoryId: 'd', at, by: { pid: 1, address: '' }, path, bytes, openedAt: at - 1 };
}

const noted = (notes: readonly SessionNote[]) =>
  notes.map(({ path, bytes, at, openedAt = 0 }) => [path, bytes, (at - openedAt - 1) / SECOND]);

test('each path is a row at once, and what is read again within a minute one more, with the sum of the bytes', () => {
  const reads = new Reads();
  assert.deepEqual(noted(reads.add(read('a', 0))), [['a', 5, 0]]);
  assert.deepEqual(noted(reads.add(read('b', 1))), [['b', 5, 0]]);
  for (let second = 10; second < 60; second += 1) assert.deepEqual(reads.add(read('a', second)), []);
  assert.deepEqual(noted(reads.add(read('a', 60))), [
    ['a', 250, 49],
    ['a', 5, 0],
  ]);
  assert.deepEqual(reads.add(read('a', 61)), []);
  assert.deepEqual(noted(reads.end()), [['a', 5, 0]]);
  assert.deepEqual(reads.end(), []);
});

test('a clock that is set back ends the minute', () => {
  const reads = new Reads();
  reads.add(read('a', 0));
  reads.add(read('a', 1));
  assert.equal(reads.add(read('a', -100)).length, 2);
});

test('however many files are read in a minute, the rows are bounded, and no byte is lost', () => {
  const reads = new Reads();
  const notes: SessionNote[] = [];
  for (let i = 0; i < 60_000; i += 1) notes.push(...reads.add(read(`f${i % 20_000}`, i / 2000)));
  notes.push(...reads.end());
  assert.ok(notes.length <= 2 * 5001, `${notes.length} rows`);
  assert.equal(
    notes.reduce((sum, { bytes = 0 }) => sum + bytes, 0),
    300_000,
  );
});

// Names from clients as paths below files/, and which of them are temporary.

test('relative, absolute and untidy names mean the same file', () => {
  for (const name of ['a/b', './a/b', '/files/a/b', '/files//a/./b', 'x/../a/b', '../files/a/b', '/../files/a/b/']) {
    assert.equal(filePath(name), 'a/b', name);
  }
});

test('a path outside files/ is no file of the directory', () => {
  for (const name of ['/files', '.', '..', '', '/', '/dev/log', '../dev/log', '/filesystem/a', 'a/../..']) {
    assert.equal(filePath(name), undefined, name);
  }
});

test('bytes that are not UTF-8 stay apart as paths and are shown with U+FFFD', () => {
  const one = filePath('a\xff');
  const two = filePath('a\xfe');
  assert.ok(one && two && one !== two);
  assert.equal(displayName(one), 'a\u{fffd}');
  assert.equal(displayName(two), 'a\u{fffd}');
});

test('the folder of a name that is cut off is that of any name which begins so, however it is spelled', () => {
  const part = fc.constantFrom('', '.', '..', '.x', 'a', 'a.b', 'b"', 'files', 'filesx');
  const folders = fc.array(part, { maxLength: 6 }).map((parts) => parts.map((each) => `${each}/`).join(''));
  fc.assert(
    fc.property(fc.constantFrom('', '/'), folders, (root, folder) => {
      const whole = filePath(`${root}${folder}name`);
      assert.equal(folderOf(`${root}${folder}na`), whole?.slice(0, -'name'.length));
    }),
    { numRuns: 2000 },
  );
});

test('the default patterns know the temporary names of common clients, and no others', () => {
  const isTemporary = temporaryNames(readConfig({}).tempNames);
  const temporary = [
    'x.filepart',
    'd/x.part',
    'x.5e1f7a2b.partial',
    'x.tmp',
    'x.temp',
    '.in.report.csv',
    '.report.csv',
  ];
  const further = ['x.writing', 'x.uploading', 'x.inprogress', '.giosaveA1b2C3', '.x.csv.Ab12Cd', 'd/sedAb12Cd'];
  const below = ['x.part/y', '.d/x', 'out/_temporary/0/part-00000'];
  for (const name of [...temporary, ...further, ...below, 'data/1f/1f2e-restic-temp-8c1e5d']) {
    assert.equal(isTemporary(name), true, name);
  }
  for (const name of [
    'x',
    'x.filepart.csv',
    'part',
    'in.x.',
    'x.Part',
    'sed',
    'sediment.csv',
    'x~',
    'rewriting',
    'temporary/x',
    'x_temporary/y',
  ]) {
    assert.equal(isTemporary(name), false, name);
  }
  assert.equal(temporaryNames(readConfig({ BERTH_TEMP_NAMES: '' }).tempNames)('x.tmp'), false);
});
