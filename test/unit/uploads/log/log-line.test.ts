/** What internal-sftp's log lines mean, hostile names included. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readEvent, readFrame, unvis } from '../../../../src/arrivals/uploads/log/log-line.ts';

const name = (text: string): string => text;

test('the lines that sshd writes are read', async (t) => {
  const lines: [string, unknown][] = [
    [
      'open "/files/a" flags WRITE,CREATE,TRUNCATE mode 0644',
      { kind: 'open', name: name('/files/a'), flags: ['WRITE', 'CREATE', 'TRUNCATE'] },
    ],
    [
      'close "/files/a" bytes read 0 written 12',
      { kind: 'close', name: name('/files/a'), forced: false, read: 0, written: 12 },
    ],
    [
      'forced close "a b" bytes read 1 written 2',
      { kind: 'close', name: name('a b'), forced: true, read: 1, written: 2 },
    ],
    [
      'rename old "/files/a" new "/files/b"',
      { kind: 'rename', from: name('/files/a'), to: name('/files/b'), replaces: false },
    ],
    ['posix-rename old "a" new "b"', { kind: 'rename', from: name('a'), to: name('b'), replaces: true }],
    ['remove name "/files/a"', { kind: 'remove', name: name('/files/a') }],
    ['set "/files/a" size 5', { kind: 'set', name: name('/files/a'), size: 5 }],
    ['set "/files/a" modtime 20261120-20:50:00', { kind: 'set', name: name('/files/a'), size: undefined }],
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
    name: name('x" bytes read 0 written 9'),
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
