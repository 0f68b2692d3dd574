/** Scans of every directory, and who waits for them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBackground } from '../../src/background.ts';
import { createLog } from '../../src/log.ts';
import { Scanner } from '../../src/uploads/disk/scanner.ts';
import { Watcher } from '../../src/uploads/disk/watcher.ts';

test('who asks again for the first scan of everything waits for the same, also when it is over', async () => {
  const log = createLog('silent');
  const ignore = (): void => undefined;
  const watcher = new Watcher({ log, filesRoot: String, limit: 1, changed: ignore, missing: ignore, unclear: ignore });
  let rounds = 0;
  const scanner = new Scanner({
    log,
    background: createBackground(log),
    jails: {
      count: async () => 0,
      byId: async () => undefined,
      async after() {
        rounds += 1;
        return [];
      },
    },
    watcher,
    databasePlace: '',
    jailDir: '',
    take: async () => undefined,
    tooDeep: ignore,
  });
  await Promise.all([scanner.coverAll(), scanner.coverAll()]);
  await scanner.coverAll();
  assert.equal(rounds, 1);
  await scanner.close();
  await watcher.close();
});
