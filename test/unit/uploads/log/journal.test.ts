/** The journal: its records, its files, and its reader, who agrees with the writer on what is in a file. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { appendFileSync, closeSync, existsSync, mkdirSync, openSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { fc } from '../../../support/fast-check.ts';
import { JournalFiles } from '../../../../src/arrivals/uploads/log/journal-files.ts';
import { readBase } from '../../../../src/arrivals/uploads/log/journal-pieces.ts';
import { JournalReader } from '../../../../src/arrivals/uploads/log/journal-reader.ts';
import {
  baseLine,
  type JournalRecord,
  type Known,
  readRecord,
} from '../../../../src/arrivals/uploads/log/journal-record.ts';
import { LineOwners } from '../../../../src/arrivals/uploads/log/line-owners.ts';
import { readEvent } from '../../../../src/arrivals/uploads/log/log-line.ts';
import { until } from '../../../support/poll.ts';
import { scratch } from '../../../support/scratch.ts';

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

// The journal's files: what they contain, what a compaction leaves, and what happens on a full disk.

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

// The journal's reader: it and the writer agree on what is in a file, whatever the disk has lost.

const JAIL = { id: 'd', sftp_username: 'acme' };

function heldRecord(at: number, heldBytes = 0): JournalRecord {
  const held = heldBytes > 0 ? [{ path: 'x'.repeat(heldBytes), inode: 1 }] : undefined;
  return { at, pid: 7, event: { kind: 'status', text: 'Failure' }, address: '192.0.2.7', held };
}

/** What a process follows of the journal that an earlier one has left, and how often something was missing. */
async function followed(folder: string): Promise<{ times: number[]; lost: number }> {
  const files = new JournalFiles({ folder, failed: assert.fail });
  const times: number[] = [];
  let lost = 0;
  const over = new AbortController();
  const reader = new JournalReader(
    {
      folder,
      signal: over.signal,
      transferLog: { compact: () => undefined, isFull: () => false },
      consumer: {
        jailOf: async () => JAIL,
        restore: () => undefined,
        follow: (_jail, { at }) => void times.push(at),
        restored: async () => undefined,
        lost: () => void (lost += 1),
        isBusy: () => false,
        isDecided: () => true,
        known: () => undefined,
        failed: assert.fail,
      },
    },
    () => undefined,
  );
  const [end] = files.ends();
  assert.ok(end);
  reader.news([end]);
  await until('all is read', async () => !reader.isRestoring('acme'));
  over.abort();
  await reader.close();
  return { times, lost };
}

for (const bytes of [90_000, 135_000, 2_000_000])
  test(`a record of ${bytes} bytes is read, and what comes after it, before and after a restart`, async () => {
    using place = scratch();
    const folder = join(place.dir, 'journal');
    const files = new JournalFiles({ folder, failed: assert.fail });
    files.append('acme', [heldRecord(1), heldRecord(2, bytes), heldRecord(3)]);
    assert.deepEqual(await followed(folder), { times: [1, 2, 3], lost: 0 });
    new JournalFiles({ folder, failed: assert.fail }).append('acme', [heldRecord(4)]);
    assert.deepEqual(await followed(folder), { times: [1, 2, 3, 4], lost: 0 });
  });

test('the disk has lost many megabytes of a journal: what comes after them is read', async () => {
  using place = scratch();
  const folder = join(place.dir, 'journal');
  new JournalFiles({ folder, failed: assert.fail }).append('acme', [heldRecord(1)]);
  appendFileSync(join(folder, 'acme'), Buffer.concat([Buffer.alloc(9_000_000), Buffer.from('\n')]));
  new JournalFiles({ folder, failed: assert.fail }).append('acme', [heldRecord(2)]);
  assert.deepEqual(await followed(folder), { times: [1, 2], lost: 1 });
});
