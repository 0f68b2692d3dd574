/** Lines that wait on the disk: their order, what a crash leaves of them, and who gets how much room. */
import assert from 'node:assert/strict';
import { appendFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type KeptLine, SpoolQueues } from '../../src/uploads/log/spool-queues.ts';
import { type Scratch, scratch } from '../support/scratch.ts';

const line = (at: number, text = 'close "ä" bytes read 0 written 1'): KeptLine => ({
  at,
  pid: 7,
  text,
  address: '192.0.2.7',
  seen: { ino: 1, size: 2, mtimeMs: 3.5 },
});

function queuesIn(place: Scratch, limit?: number) {
  const failures: unknown[] = [];
  const folder = join(place.dir, 'spool');
  return { folder, failures, queues: new SpoolQueues(folder, (error) => void failures.push(error), limit) };
}

function takeAll(queues: SpoolQueues, user: string): readonly KeptLine[] {
  const taken = queues.take(user);
  return taken.length === 0 ? [] : [...taken, ...takeAll(queues, user)];
}

test('what is put in comes out in order, of each user, and once', () => {
  using place = scratch();
  const { queues, folder } = queuesIn(place);
  const lines = Array.from({ length: 2000 }, (_, at) => line(at));
  queues.add('a', lines.slice(0, 1500));
  queues.add('b', [line(1)]);
  queues.add('a', lines.slice(1500));
  assert.deepEqual(takeAll(queues, 'a'), lines);
  queues.add('a', [line(3000)]);
  assert.deepEqual(takeAll(queues, 'a'), [line(3000)]);
  assert.deepEqual(takeAll(queues, 'b'), [line(1)]);
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  assert.equal(statSync(join(folder, 'a')).mode & 0o777, 0o600);
});

test('the next process gets all that was not removed, but for a line that was cut off', () => {
  using place = scratch();
  const first = queuesIn(place);
  first.queues.addFollowed('a', [line(1)]);
  first.queues.add('a', [line(2)]);
  first.queues.add('b', [line(1)]);
  assert.deepEqual(takeAll(first.queues, 'a'), [line(2)]);
  first.queues.remove('b');
  appendFileSync(join(first.folder, 'a'), '\n{"at":3,"pi');
  const { queues } = queuesIn(place);
  assert.deepEqual(queues.users(), ['a']);
  queues.add('a', [line(4)]);
  assert.deepEqual(takeAll(queues, 'a'), [line(1), line(2), line(4)]);
  queues.remove('a');
  assert.deepEqual(queuesIn(place).queues.users(), []);
});

test('who says very much gets half of the room, then some memory; others still get their share', () => {
  using place = scratch();
  const { queues, failures, folder } = queuesIn(place, 1_000_000);
  for (let at = 0; at < 20_000; at += 100) {
    queues.add(
      'loud',
      Array.from({ length: 100 }, (_, index) => line(at + index)),
    );
  }
  assert.ok(failures.length > 0);
  const loud = statSync(join(folder, 'loud')).size;
  assert.ok(loud <= 500_000, `${loud} bytes`);
  const taken = takeAll(queues, 'loud');
  assert.deepEqual(
    taken.map(({ at }) => at),
    taken.map((_, index) => index),
    'only the last are lost',
  );
  assert.equal(queues.hasLost('loud'), true);
  assert.equal(queues.hasLost('loud'), false);
  const before = failures.length;
  queues.add('quiet', [line(1), line(2)]);
  assert.equal(failures.length, before);
  assert.deepEqual(takeAll(queues, 'quiet'), [line(1), line(2)]);
});
