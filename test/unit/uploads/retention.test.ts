/** Retention leaves rows right while the log and the disk say something else. Real sessions: test/sshd/retention. */
import assert from 'node:assert/strict';
import { closeSync, mkdirSync, openSync, readdirSync, renameSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { filesHeldBy } from '../../../src/arrivals/uploads/processes.ts';
import { expireLater } from '../../support/expire-now.ts';
import { recordingPlace, WRITE } from '../../support/recording-place.ts';

test('a folder was renamed and the log is not read yet: the rows below it stay and follow', async () => {
  await using at = await recordingPlace();
  mkdirSync(join(at.files, 'd'));
  at.write('d/a', 'xxxxx');
  at.logged(1, `open "d/a" ${WRITE}`, 'close "d/a" bytes read 0 written 5');
  await at.comesTo(['d/a 5'], ['d/a 5 uploaded']);
  renameSync(join(at.files, 'd'), join(at.files, 'e'));
  await expireLater(at);
  await at.comesTo(['d/a 5'], ['d/a 5 uploaded']);
  at.logged(1, 'rename old "d" new "e"');
  await at.comesTo(['d/a 5'], ['e/a 5 uploaded']);
  await at.stays(['d/a 5'], ['e/a 5 uploaded']);
  const events = await at.db.selectFrom('transfers').select('event').execute();
  assert.deepEqual(
    events.filter(({ event }) => event === 'removed'),
    [],
  );
});

test('the file of an expired row has gone unseen: the row goes, a while later', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  await at.comesTo(['a 5'], ['a 5 uploaded']);
  renameSync(join(at.files, 'a'), join(at.files, '..', 'a'));
  await expireLater(at);
  await at.settles(['a 5'], []);
});

test('a file is overwritten with the same size and time, and the log is not read yet: it stays', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  await at.comesTo(['a 5'], ['a 5 uploaded']);
  const { atime, mtime } = statSync(join(at.files, 'a'));
  await wait(20);
  at.write('a', 'yyyyy');
  utimesSync(join(at.files, 'a'), atime, mtime);
  await expireLater(at);
  assert.deepEqual(readdirSync(at.files), ['a']);
});

test('a file that a client opens while others are removed stays', async () => {
  await using at = await recordingPlace();
  for (let i = 0; i < 130; i++) {
    at.write(`f${i}`, 'xxxxx');
    at.logged(1, `open "f${i}" ${WRITE}`, `close "f${i}" bytes read 0 written 5`);
  }
  await at.parting.drained();
  let opened: number | undefined;
  await expireLater(at, async () => {
    const held = filesHeldBy(process.pid).map(({ inode }) => inode);
    opened ??= openSync(join(at.files, 'f129'), 'a');
    return (inode) => held.includes(inode);
  });
  assert.deepEqual(readdirSync(at.files), ['f129']);
  if (opened !== undefined) closeSync(opened);
});
