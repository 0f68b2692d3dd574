import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const MODULE = fileURLToPath(new URL('../../../src/foundation/base/spare-memory.ts', import.meta.url));

/** Prints how many MiB its heap has after a busy time (80 or a few more), and after an idle one. */
const PROGRAM = `
import { setTimeout as wait } from 'node:timers/promises';
import { createBackground } from ${JSON.stringify(fileURLToPath(new URL('../../../src/foundation/base/background.ts', import.meta.url)))};
import { startSpareMemory } from ${JSON.stringify(MODULE)};
const heap = () => Math.round(process.memoryUsage().heapTotal / 2 ** 20);
startSpareMemory(createBackground(console), 20);
const busyUntil = performance.now() + 200;
let kept = [];
while (performance.now() < busyUntil || heap() < 80) {
  // A fast machine would have more than the largest heap that is collected.
  if (heap() < 80) for (let i = 0; i < 1000; i += 1) kept.push({ i, text: String(i) });
  await new Promise(setImmediate);
}
const grown = heap();
kept = undefined;
const over = performance.now() + 60_000;
while (heap() > grown / 2 && performance.now() < over) await wait(20);
console.log(JSON.stringify({ grown, after: heap() }));
`;

/** Runs the program with those flags of Node's. */
function heaps(...flags: string[]): { grown: number; after: number } {
  const words = [...flags, '--input-type=module', '--eval', PROGRAM];
  return JSON.parse(execFileSync(process.execPath, words, { encoding: 'utf8' })) as { grown: number; after: number };
}

test('an idle process gives back what a busy time has needed', () => {
  const { grown, after } = heaps('--expose-gc');
  assert.ok(grown >= 80, `${grown} MiB`);
  assert.ok(after <= grown / 2, `${after} of ${grown} MiB`);
});
