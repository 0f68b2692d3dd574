/** Loops in the background: one that fails ends nothing, is seen, and is tried again. */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { createBackground } from '../../../src/foundation/base/background.ts';
import { DatabaseUnavailable } from '../../../src/foundation/db/away.ts';
import { createLog } from '../../../src/foundation/base/log.ts';

/** Loops with a log that can be read, on a clock that the test moves. */
function place() {
  mock.timers.enable({ apis: ['setTimeout'] });
  const lines: string[] = [];
  const background = createBackground(createLog('error', { write: (line) => void lines.push(line) }));
  /** Lets promises go on, then so much time pass. */
  async function pass(ms: number): Promise<void> {
    await settled();
    mock.timers.tick(ms);
    await settled();
  }
  return { background, lines, pass, [Symbol.dispose]: () => mock.timers.reset() };
}

async function settled(): Promise<void> {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
}

test('a loop that waits for another process to end its transaction does not count as failing', async () => {
  using at = place();
  let runs = 0;
  at.background.start('writing', { every: 60_000, atOnce: true }, async () => {
    runs += 1;
    if (runs <= 5) throw Object.assign(new Error('database is locked'), { code: 'SQLITE_BUSY' });
  });
  for (let i = 0; i <= 5; i++) await at.pass(5000);
  assert.deepEqual([runs, at.background.failing(), at.background.failures().get('writing')], [6, [], 0]);
});

test('a first run that fails is repeated after growing waits; after a success the regular waits follow', async () => {
  using at = place();
  let runs = 0;
  const loop = at.background.start('sweeping', { every: 60_000, atOnce: true }, async () => {
    runs += 1;
    if (runs <= 4) throw new Error('no disk');
  });
  await at.pass(0);
  assert.deepEqual([runs, at.background.failing()], [1, []]);
  for (const [wait, after] of [
    [1000, 2],
    [2000, 3],
    [4000, 4],
  ] as const) {
    await at.pass(wait - 1);
    assert.equal(runs, after - 1, `not before ${wait} ms`);
    await at.pass(1);
    assert.equal(runs, after);
  }
  assert.deepEqual(at.background.failing(), ['sweeping']);
  assert.equal(at.background.failures().get('sweeping'), 4);
  assert.equal(at.lines.filter((line) => line.includes('sweeping failed and will be retried')).length, 4);
  await at.pass(8000);
  assert.deepEqual([runs, at.background.failing()], [5, []]);
  await at.pass(59_999);
  assert.equal(runs, 5);
  await at.pass(1);
  assert.equal(runs, 6);
  await loop.close();
});

test('a loop that fails does not hold up another', async () => {
  using at = place();
  const ran: string[] = [];
  const failing = at.background.start('failing', { every: 1000, atOnce: true }, async () => {
    throw new Error('always');
  });
  const sound = at.background.start('sound', { every: 1000, atOnce: true }, async () => void ran.push('sound'));
  await at.pass(0);
  await at.pass(1000);
  assert.equal(ran.length, 2);
  await Promise.all([failing.close(), sound.close()]);
});

test('a requested run resolves when it ends, successful or not, and at once after the loop has ended', async () => {
  using at = place();
  let fails = false;
  const loop = at.background.start('asked', { every: 60_000 }, async () => {
    if (fails) throw new Error('not now');
  });
  await loop.run();
  fails = true;
  await loop.run();
  assert.equal(at.background.failures().get('asked'), 1);
  await loop.close();
  await loop.run();
  assert.equal(at.background.failures().get('asked'), 1);
});

test('the end of a loop tells what runs, and waits for it; what that throws is no failure', async () => {
  using at = place();
  const aborted = Promise.withResolvers<void>();
  const rest = Promise.withResolvers<void>();
  const loop = at.background.start('long', { every: 1000, atOnce: true }, async (signal) => {
    signal.addEventListener('abort', () => aborted.resolve());
    await rest.promise;
    throw signal.reason;
  });
  await at.pass(0);
  let isClosed = false;
  const closing = loop.close().then(() => (isClosed = true));
  await aborted.promise;
  assert.equal(isClosed, false);
  rest.resolve();
  await closing;
  assert.deepEqual([at.background.failures().get('long'), at.lines], [0, []]);
});

test('a task may ask for another wait', async () => {
  using at = place();
  let runs = 0;
  const loop = at.background.start('patient', { every: 1000, atOnce: true }, async () => {
    runs += 1;
    return 5000;
  });
  await at.pass(0);
  await at.pass(4999);
  assert.equal(runs, 1);
  await at.pass(1);
  assert.equal(runs, 2);
  await loop.close();
});

test('a database that is away for an hour is asked every 5 s at most, and the loop is on time again at once', async () => {
  using at = place();
  let runs = 0;
  let isAway = true;
  at.background.start('sweeping', { every: 60_000, atOnce: true }, async () => {
    runs += 1;
    if (isAway) throw new DatabaseUnavailable(new Error('connect ECONNREFUSED'));
  });
  await at.pass(0);
  for (let second = 0; second < 3600; second += 5) await at.pass(5000);
  assert.equal(runs, 1 + 3600 / 5);
  isAway = false;
  await at.pass(5000);
  assert.deepEqual([runs, at.background.failing()], [2 + 3600 / 5, []]);
  await at.pass(59_999);
  assert.equal(runs, 2 + 3600 / 5);
  await at.pass(1);
  assert.equal(runs, 3 + 3600 / 5);
});
