/** Lines of the log in lanes: who waits for whom. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { Lanes, type LanesOptions } from '../../src/uploads/log/lanes.ts';

/** Processes below 100 belong to directory `a`, others to `b`. */
function lanesOf(options: Partial<LanesOptions> = {}) {
  const followed: string[] = [];
  const lost: string[] = [];
  const lanes = new Lanes({
    directoryOf: (pid) => (pid < 100 ? 'a' : 'b'),
    follow: ({ text }) => void followed.push(text),
    failed: (error) => assert.fail(String(error)),
    isBusy: () => false,
    lost: (id) => void lost.push(id),
    ...options,
  });
  return { lanes, followed, lost, say: (pid: number, text: string) => lanes.push({ at: 1, pid, text }) };
}

test('a busy directory’s lines wait, but not for looks that wait for them', async () => {
  const { lanes, followed, say } = lanesOf({ isBusy: () => true });
  say(7, 'line');
  await wait(50);
  assert.deepEqual(followed, []);
  await lanes.passed('a');
  assert.deepEqual(followed, ['line']);
  await lanes.running;
});

test('a directory that says a lot delays itself alone, and each lane keeps its order', async () => {
  const { lanes, followed, say } = lanesOf();
  for (let i = 0; i < 10_000; i++) say(1, `a ${i}`);
  say(100, 'b 0');
  say(100, 'b 1');
  await lanes.running;
  assert.ok(followed.indexOf('b 1') < 100, `b came after ${followed.indexOf('b 1')} lines of a`);
  assert.deepEqual(
    followed.filter((text) => text.startsWith('a')),
    Array.from({ length: 10_000 }, (_, i) => `a ${i}`),
  );
});

test('what a process said before it was known to belong to a directory comes first there', async () => {
  let isKnown = false;
  const followed: string[] = [];
  const { lanes, say } = lanesOf({
    directoryOf: () => (isKnown ? 'a' : undefined),
    follow({ text }) {
      followed.push(text);
      if (text !== 'opened') return undefined;
      return wait(20).then(() => void (isKnown = true));
    },
  });
  for (const text of ['opened', 'one', 'two']) say(7, text);
  await wait(5);
  say(7, 'three');
  await wait(30);
  say(7, 'four');
  await lanes.running;
  assert.deepEqual(followed, ['opened', 'one', 'two', 'three', 'four']);
});

test('a lane that overflows drops what comes and says so once it is empty', async () => {
  const { lanes, followed, lost, say } = lanesOf();
  for (let i = 0; i < 30_000; i++) say(1, 'line');
  say(100, 'other');
  await lanes.running;
  assert.deepEqual([followed.length, lost], [20_001, ['a']]);
});
