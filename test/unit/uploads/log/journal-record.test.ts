/** Records of the journal: hostile names survive it, and those that an older version has left are read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readRecord } from '../../../../src/arrivals/uploads/log/journal-record.ts';
import { readEvent } from '../../../../src/arrivals/uploads/log/log-line.ts';

const SESSION = { at: 1, pid: 7, address: '192.0.2.7' };
const CLOSE = 'close "a" bytes read 0 written 5';
const OBSERVATION = { ino: 1, size: 5, mtimeMs: 2 };

test('an event is the same when it is read from the journal, whatever bytes its name has', () => {
  const bytes = fc
    .uint8Array({ maxLength: 40 })
    .map((name) => Array.from(name, (byte) => `\\${byte.toString(8).padStart(3, '0')}`));
  fc.assert(
    fc.property(bytes, (name) => {
      for (const line of [`open "${name.join('')}" flags WRITE,EXCL mode 0666`, `remove name "${name.join('')}"`]) {
        const event = readEvent(line);
        assert.notEqual(event.kind, 'other');
        assert.deepEqual(readRecord(JSON.stringify({ ...SESSION, event })), { ...SESSION, event });
      }
    }),
  );
});

test('an older version has left the text of a line, and one observation without a list', () => {
  const event = readEvent(CLOSE);
  const older = (seen: unknown) => readRecord(JSON.stringify({ ...SESSION, text: CLOSE, seen }));
  assert.deepEqual(older(OBSERVATION), { ...SESSION, event, seen: [OBSERVATION] });
  assert.deepEqual(older([OBSERVATION, null]), { ...SESSION, event, seen: [OBSERVATION, null] });
  assert.deepEqual(older(null), { ...SESSION, event, seen: [null] });
  assert.deepEqual(older(undefined), { ...SESSION, event, seen: undefined });
});

test('an older version has left a gap', () => {
  const gap = { at: 3, pid: 0, text: '', address: '', isGap: true };
  assert.deepEqual(readRecord(JSON.stringify(gap)), { at: 3, isGap: true });
});
