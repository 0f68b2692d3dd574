/** What the history keeps of a session's reads. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SECOND } from '../../../../src/foundation/base/clock.ts';
import { Reads } from '../../../../src/arrivals/uploads/log/reads.ts';
import type { SessionNote } from '../../../../src/arrivals/uploads/record/transfer-history.ts';

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
