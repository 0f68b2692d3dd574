/** The journal's files: what they contain, what a compaction leaves, and what happens on a full disk. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { appendFileSync, closeSync, existsSync, mkdirSync, openSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { JournalFiles } from '../../../../src/arrivals/uploads/log/journal-files.ts';
import { readBase } from '../../../../src/arrivals/uploads/log/journal-pieces.ts';
import {
  baseLine,
  type JournalRecord,
  type Known,
  readRecord,
} from '../../../../src/arrivals/uploads/log/journal-record.ts';
import { LineOwners } from '../../../../src/arrivals/uploads/log/line-owners.ts';
import { scratch } from '../../../support/scratch.ts';

const record = (at: number, text = 'x'): JournalRecord => {
  return { at, pid: 7, event: { kind: 'status', text }, address: '192.0.2.7' };
};

function journalPlace(limit?: number) {
  const place = scratch();
  const folder = join(place.dir, 'journal');
  const errors: unknown[] = [];
  const open = (): JournalFiles =>
    new JournalFiles({ folder, failed: (error) => errors.push(error), ...(limit !== undefined && { limit }) });
  const read = (user: string): Buffer => readFileSync(join(folder, user));
  const baseOf = (user: string): ReturnType<typeof readBase> => {
    const file = openSync(join(folder, user), 'r');
    try {
      return readBase(file);
    } finally {
      closeSync(file);
    }
  };
  const timesOf = (user: string): number[] =>
    read(user)
      .toString('utf8', baseOf(user).length)
      .split('\n')
      .flatMap((line) => readRecord(line)?.at ?? []);
  return { place, folder, errors, open, read, baseOf, timesOf, [Symbol.dispose]: () => place[Symbol.dispose]() };
}

/** A base that keeps that. */
const keeping = (base: number, known: Known): string => baseLine({ base, ...known });

test('records outlive the process, for root alone, and one that was cut off is left out', () => {
  using at = journalPlace();
  at.open().append('acme', [record(1), record(2)]);
  assert.equal(statSync(join(at.folder, 'acme')).mode & 0o777, 0o600);
  assert.equal(statSync(at.folder).mode & 0o777, 0o700);
  appendFileSync(join(at.folder, 'acme'), '{"at":3,"pi');
  const next = at.open();
  next.append('acme', [record(4)]);
  assert.deepEqual(at.timesOf('acme'), [1, 2, 4]);
  assert.deepEqual(next.ends(), [['acme', at.read('acme').length]]);
});

test('a compaction keeps later records and positions, and removes a file that would be empty', async () => {
  using at = journalPlace();
  const files = at.open();
  const first = files.append('acme', [record(1)]) ?? 0;
  const second = files.append('acme', [record(2)]) ?? 0;
  const state = [{ by: { pid: 9, address: '192.0.2.9' } }];
  await files.compact('acme', first, keeping(first, { state, doubtedUntil: 5 }));
  assert.deepEqual(at.timesOf('acme'), [2]);
  const { length: _length, ...base } = at.baseOf('acme');
  assert.deepEqual(base, { base: first, state, doubtedUntil: 5 });
  assert.equal(files.append('acme', [record(3)]), second + (second - first));
  assert.deepEqual(at.open().ends(), [['acme', second + (second - first)]]);
  await files.compact('acme', second + (second - first), undefined);
  assert.ok(!existsSync(join(at.folder, 'acme')));
});

test('a compaction while a file with a name beyond ASCII is open loses no position, also for the next process', async () => {
  using at = journalPlace();
  const files = at.open();
  const first = files.append('acme', [record(1)]) ?? 0;
  const session = { by: { pid: 9, address: '' }, handles: [{ name: 'r\u00c3\u00bcck \u00e6\u0097\u00a5.csv' }] };
  await files.compact('acme', first, keeping(first, { state: [session] }));
  const end = files.append('acme', [record(2)]) ?? 0;
  assert.deepEqual(at.timesOf('acme'), [2]);
  assert.equal(at.baseOf('acme').length, at.read('acme').indexOf('\n') + 1);
  const next = at.open();
  assert.deepEqual(next.ends(), [['acme', end]]);
  next.append('acme', [record(3)]);
  await next.compact('acme', end, undefined);
  assert.deepEqual(at.timesOf('acme'), [3]);
});

test('beyond its share a journal keeps some lines in memory, reports lost ones, and continues when there is room', async () => {
  using at = journalPlace(40_000);
  const files = at.open();
  let end = 0;
  for (let time = 1; time <= 6000; time += 1) end = files.append('acme', [record(time)]) ?? end;
  assert.ok(files.isWaiting && at.errors.length > 0);
  assert.ok(files.append('other', [record(1)]), 'there is room left for another user');
  const kept = at.timesOf('acme').length;
  let last: JournalRecord | undefined;
  for (let turn = 0; turn < 1000 && !last?.isGap; turn += 1) {
    await files.compact('acme', end, keeping(end, { state: [] }));
    for (const [user, to] of files.retry(7000)) if (user === 'acme') end = to;
    last = readRecord(at.read('acme').toString().trimEnd().split('\n').at(-1) ?? '');
  }
  assert.ok(last?.isGap, `after ${kept} records of 6000`);
  assert.ok(!files.isWaiting);
});

test('a process that has ended is known by its records, and by the base when they have gone', async () => {
  using at = journalPlace();
  const jailDir = join(at.place.dir, 'jails');
  for (const user of ['acme', 'beta']) mkdirSync(join(jailDir, user), { recursive: true });
  const dead = spawnSync('true').pid;
  const files = at.open();
  const end = files.append('acme', [record(1)]) ?? 0;
  await files.compact('acme', end, keeping(end, { state: [{ by: { pid: dead, address: '192.0.2.9' } }] }));
  const owners = new LineOwners({ jailDir, earlier: at.open().earlier });
  const found = owners.recordOf({ at: 2, pid: dead, text: 'close "a" bytes read 0 written 0' });
  assert.deepEqual([found?.user, found?.record.address], ['acme', '192.0.2.9']);
  assert.equal(owners.recordOf({ at: 3, pid: 4_000_001, text: 'close "a" bytes read 0 written 0' }), undefined);
});

test('a base of many megabytes is read completely, and a compaction copies a long journal while records are appended', async () => {
  using at = journalPlace();
  const files = at.open();
  const text = 'x'.repeat(1000);
  const first = files.append('acme', [record(1)]) ?? 0;
  for (let time = 2; time <= 5000; time += 1) files.append('acme', [record(time, text)]);
  const sessions = Array.from({ length: 50_000 }, (_, pid) => ({ by: { pid, address: '192.0.2.1'.repeat(20) } }));
  let end = 0;
  let time = 5000;
  const compacted = files.compact('acme', first, keeping(first, { state: sessions }));
  const over = new AbortController();
  void compacted.finally(() => over.abort());
  while (!over.signal.aborted) {
    end = files.append('acme', [record((time += 1), text)]) ?? 0;
    await setImmediate();
  }
  assert.equal((await compacted)?.baseLength, at.baseOf('acme').length);
  assert.ok(at.baseOf('acme').length > 10e6);
  assert.ok(time > 5002, 'records were appended meanwhile');
  const next = at.open();
  assert.deepEqual(next.ends(), [['acme', end]]);
  assert.equal(next.earlier.get(49_999)?.user, 'acme');
  next.append('acme', [record((time += 1))]);
  assert.deepEqual(
    at.timesOf('acme'),
    Array.from({ length: time - 1 }, (_, index) => index + 2),
  );
});
