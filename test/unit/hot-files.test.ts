/** Files that change all the time, and what is done with their changes. */
import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { createLog } from '../../src/log.ts';
import { createHotFiles } from '../../src/uploads/hot-files.ts';
import { createWatcher } from '../../src/uploads/watcher.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';

test('a file beyond a few looks a second is left alone and reported once; a folder never is', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const reported: string[] = [];
  const hot = createHotFiles(
    (path) => path !== 'folder',
    (path) => reported.push(path),
  );
  const looks = (path: string): number => Array.from({ length: 100 }, () => hot.isHot(path)).filter((is) => !is).length;
  assert.equal(looks('file'), 20);
  assert.equal(looks('folder'), 100);
  assert.equal(hot.isHot('another'), false);
  assert.deepEqual(reported, []);
  t.mock.timers.tick(1000);
  assert.deepEqual(reported, ['file']);
  assert.equal(hot.isHot('file'), false);
  hot.close();
});

test('beside a file that changes all the time, each new file of a busy folder is seen, and the end of the other', async () => {
  using place = scratch();
  mkdirSync(join(place.dir, 'busy'));
  const seen: string[] = [];
  const watcher = createWatcher({
    log: createLog('silent'),
    filesRoot: () => place.dir,
    changed: (_, path) => seen.push(path.toString()),
    missing: () => undefined,
    unclear: () => undefined,
  });
  watcher.add('u');
  await until('it watches', () => {
    writeFileSync(join(place.dir, 'busy', 'first'), String(Math.random()));
    return seen.includes('busy/first');
  });
  const names = Array.from({ length: 200 }, (_, index) => `busy/file-${index}`);
  for (const name of names) {
    writeFileSync(join(place.dir, name), 'data');
    for (let time = 0; time < 10; time += 1) appendFileSync(join(place.dir, 'busy', 'log'), 'x');
    await wait(1);
  }
  const looked = seen.filter((name) => name === 'busy/log').length;
  await until('each is seen', () => names.every((name) => seen.includes(name)));
  await until('the end is seen', () => seen.filter((name) => name === 'busy/log').length > looked);
  await watcher.close();
});
