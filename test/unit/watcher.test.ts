/** Which jails are watched, and what of a jail is reported, with real files. */
import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { createLog } from '../../src/log.ts';
import { Watcher } from '../../src/uploads/disk/watcher.ts';
import type { Jail } from '../../src/uploads/jails.ts';
import { until } from '../support/poll.ts';
import { type Scratch, scratch } from '../support/scratch.ts';

/** How long the kernel and chokidar may take to report a change, in ms. */
const REPORTED = 1000;

function jail(username: string): Jail {
  return { id: `id-${username}`, sftp_username: username };
}

function watcherOf(place: Scratch, limit: number) {
  const reported: string[] = [];
  const unclear: string[] = [];
  const watcher = new Watcher({
    log: createLog('silent'),
    filesRoot: (username) => join(place.dir, username),
    limit,
    changed: ({ sftp_username }, path) => void reported.push(`${sftp_username}/${path}`),
    missing: ({ sftp_username }, path) => void reported.push(`-${sftp_username}/${path}`),
    unclear: ({ sftp_username }) => void unclear.push(sftp_username),
  });
  for (const user of ['a', 'b', 'c', 'd', 'e']) mkdirSync(join(place.dir, user));
  let files = 0;
  return {
    watcher,
    reported,
    unclear,
    /** The users in whose jails a new file is reported. */
    async watched(): Promise<string> {
      await wait(REPORTED); // chokidar begins to watch in its own time
      const name = `new-${files++}`;
      for (const user of ['a', 'b', 'c', 'd', 'e']) writeFileSync(join(place.dir, user, name), '');
      await wait(REPORTED);
      const users = ['a', 'b', 'c', 'd', 'e'];
      return users.filter((user) => reported.includes(`${user}/${name}`)).join(' ');
    },
    [Symbol.asyncDispose]: () => watcher.close(),
  };
}

test('every jail is watched up to the limit', async () => {
  using place = scratch();
  await using at = watcherOf(place, 3);
  at.watcher.begin(3);
  for (const user of ['a', 'b', 'c']) at.watcher.add(jail(user));
  assert.equal(at.watcher.isComplete(), true);
  at.watcher.add(jail('d'));
  assert.equal(at.watcher.isComplete(), false);
  assert.equal(await at.watched(), 'a b c');
});

test('above the limit those with the latest sessions are watched', async () => {
  using place = scratch();
  await using at = watcherOf(place, 2);
  at.watcher.begin(5);
  for (const user of ['a', 'b', 'c', 'd', 'e']) at.watcher.add(jail(user));
  assert.equal(await at.watched(), '');
  for (const user of ['a', 'b', 'a', 'c']) at.watcher.use(jail(user));
  assert.equal(at.watcher.isComplete(), false);
  assert.equal(await at.watched(), 'a c');
});

test('when directories have gone, the next round watches every jail again', async () => {
  using place = scratch();
  await using at = watcherOf(place, 2);
  at.watcher.begin(3);
  at.watcher.use(jail('a'));
  at.watcher.remove(jail('a'));
  at.watcher.begin(2);
  for (const user of ['b', 'c']) at.watcher.add(jail(user));
  assert.equal(at.watcher.isComplete(), true);
  assert.equal(await at.watched(), 'b c');
});

test('a jail with very many folders is given up and scanned, and watched again when it has few', async () => {
  using place = scratch();
  await using at = watcherOf(place, 5);
  at.watcher.begin(2);
  for (let i = 0; i < 1100; i++) mkdirSync(join(place.dir, 'a', `folder-${i}`));
  for (const user of ['a', 'b']) at.watcher.add(jail(user));
  await until('it is given up', () => at.watcher.crowded().length === 1);
  assert.deepEqual([at.watcher.crowded(), at.unclear], [[jail('a')], ['a']]);
  assert.equal(await at.watched(), 'b');
  at.watcher.use(jail('a'));
  assert.equal(await at.watched(), 'b');
  for (let i = 0; i < 1100; i++) rmSync(join(place.dir, 'a', `folder-${i}`), { recursive: true });
  at.watcher.thinned(jail('a'));
  assert.deepEqual(at.watcher.crowded(), []);
  assert.equal(await at.watched(), 'a b');
});

test('a name that is not UTF-8 is for a scan to find', async () => {
  using place = scratch();
  await using at = watcherOf(place, 5);
  at.watcher.begin(1);
  at.watcher.add(jail('a'));
  await wait(REPORTED);
  writeFileSync(Buffer.concat([Buffer.from(join(place.dir, 'a', 'name-')), Buffer.from([0xff])]), '');
  await until('it is reported', () => at.unclear.includes('a'));
});

test('beside a file that changes all the time each new file is seen, and the end of the other', async () => {
  using place = scratch();
  await using at = watcherOf(place, 5);
  at.watcher.begin(1);
  at.watcher.add(jail('a'));
  const folder = join(place.dir, 'a', 'busy');
  mkdirSync(folder);
  const { reported } = at;
  await until('it watches', () => {
    writeFileSync(join(folder, 'first'), String(Math.random()));
    return reported.includes('a/busy/first');
  });
  const names = Array.from({ length: 200 }, (_, index) => `file-${index}`);
  for (const name of names) {
    writeFileSync(join(folder, name), 'data');
    for (let time = 0; time < 10; time += 1) appendFileSync(join(folder, 'log'), 'x');
    await wait(1);
  }
  const looked = reported.filter((path) => path === 'a/busy/log').length;
  assert.ok(looked < 100, `${looked} of 2,000 changes reported`);
  await until('each is seen', () => names.every((name) => reported.includes(`a/busy/${name}`)));
  await until('the end is seen', () => reported.filter((path) => path === 'a/busy/log').length > looked);
});
