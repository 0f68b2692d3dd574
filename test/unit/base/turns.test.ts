/** The order of turns: nobody waits behind another's thousands, and nobody waits for ever. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { FairQueue, Turns } from '../../../src/foundation/base/turns.ts';

const MUCH = 1000;

test('those with little to do go first, and the others in the order in which they came', () => {
  const turns = new Turns<string>();
  turns.add('a', MUCH);
  turns.add('b', MUCH);
  turns.add('c', 1);
  turns.add('a', MUCH);
  assert.deepEqual([turns.take(), turns.take(), turns.take(), turns.take()], ['c', 'a', 'b', undefined]);
});

test('those with much to do get a turn, however many others have little', () => {
  const turns = new Turns<number>();
  turns.add(-1, MUCH);
  let before = 0;
  for (turns.add(before, 1); turns.take() !== -1; turns.add(before, 1)) before += 1;
  assert.ok(before > 0 && before < 20, `${before} turns before it`);
});

test('a place in the long line is given up for one in the short line when little is left', () => {
  const turns = new Turns<string>();
  turns.add('a', MUCH);
  turns.add('b', MUCH);
  turns.add('b', 1);
  assert.deepEqual([turns.take(), turns.take(), turns.size], ['b', 'a', 0]);
});

test('one job passes a thousand of another owner', async () => {
  const queue = new FairQueue(2);
  const done: string[] = [];
  const job = (name: string) => async (): Promise<void> => {
    await setImmediate();
    done.push(name);
  };
  const all = Array.from({ length: MUCH }, (_, index) => queue.add('flood', job(`flood ${index}`)));
  await queue.add('neighbour', job('neighbour'));
  assert.ok(done.length < 5, `${done.length} jobs before it`);
  await Promise.all(all);
  assert.deepEqual(
    done.filter((name) => name !== 'neighbour'),
    Array.from({ length: MUCH }, (_, index) => `flood ${index}`),
  );
});

test('a job that fails rejects, and frees its place', async () => {
  const queue = new FairQueue(1);
  const failing = queue.add('a', async () => Promise.reject(new Error('no')));
  const next = queue.add('a', async () => 'yes');
  await assert.rejects(failing, /no/);
  assert.equal(await next, 'yes');
});
