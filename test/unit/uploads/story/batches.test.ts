/** Transactions of several operations: what shares one, whose turn the next is, and what is repeated. */
import assert from 'node:assert/strict';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FileSyncer } from '../../../../src/arrivals/uploads/disk/file-syncer.ts';
import { jailFiles } from '../../../../src/arrivals/uploads/file-path.ts';
import { JailQueries } from '../../../../src/arrivals/uploads/jails.ts';
import { openDatabase } from '../../../../src/foundation/db/open.ts';
import { fill } from '../../../bench/filled.ts';
import { firstAccount } from '../../../bench/served.ts';
import { until } from '../../../support/poll.ts';
import { recording } from '../../../support/recording.ts';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';
import { scratch } from '../../../support/scratch.ts';

const FILES = 40;

test('files that were renamed before their lines are read share transactions', async () => {
  let commits = 0;
  const isTemporary = (path: string): boolean => path.endsWith('.part');
  await using at = await recordingPlace({ isTemporary, committed: () => void (commits += 1) });
  const names = Array.from({ length: FILES }, (_, index) => `file-${String(index).padStart(2, '0')}`);
  for (const name of names) {
    at.write(`${name}.part`, 'xxxxx');
    renameSync(join(at.files, `${name}.part`), join(at.files, name));
  }
  for (const name of names)
    at.logged(
      1,
      `open "${name}.part" ${WRITE}`,
      `close "${name}.part" bytes read 0 written 5`,
      `rename old "${name}.part" new "${name}"`,
    );
  await at.comes(
    names.map((name) => `${name} 5`),
    names.map((name) => `${name} 5 uploaded`),
  );
  assert.ok(commits < FILES, `${FILES} files took ${commits} transactions`);
});

const MANY = 80;
/** A transaction has time for one or two operations that take this long, in ms. */
const SLOW_MS = 15;

test('a directory that a slow transaction leaves out goes first in the next one', async () => {
  await using parts = new AsyncDisposableStack();
  const { config } = parts.use(scratch());
  await fill(config, await firstAccount(config), { directories: 2, filesEach: 0 });
  const database = await openDatabase(config.database);
  parts.defer(() => database.close());
  const jails = await new JailQueries(database.reads, config.node).after('', 2);
  const filesRoot = jailFiles(config.jailDir);
  let isApplying = false;
  const isTemporary = (): boolean => {
    const end = isApplying ? performance.now() + SLOW_MS : 0;
    while (performance.now() < end);
    return false;
  };
  const syncer = new FileSyncer({ isOn: false });
  const options = { database, node: config.node, filesRoot, syncer, isTemporary };
  const begun = () => void (isApplying = true);
  const { say } = parts.use(recording({ ...options, begun, beforeCommit: () => void (isApplying = false) }));
  for (const jail of jails)
    for (let index = 0; index < MANY; index += 1) {
      writeFileSync(join(filesRoot(jail.sftp_username), `file-${index}`), 'xxxxx');
      say(jail, 1, `open "file-${index}" ${WRITE}`, `close "file-${index}" bytes read 0 written 5`);
    }
  const recorded = async (): Promise<number[]> => {
    const rows = await database.db.selectFrom('files').select('directory_id').execute();
    return jails.map(({ id }) => rows.filter(({ directory_id }) => directory_id === id).length);
  };
  let farthest = 0;
  await until('one directory is recorded', async () => {
    const [one = 0, other = 0] = await recorded();
    farthest = Math.max(farthest, Math.abs(one - other));
    return Math.max(one, other) === MANY;
  });
  assert.ok(farthest < MANY / 4, `one directory was ${farthest} files ahead`);
});

test('uploads wait while a newer berth has migrated the schema', async () => {
  let left = 2;
  await using at = await recordingPlace({
    beforeCommit() {
      left -= 1;
      if (left >= 0) throw Object.assign(new Error('relation "daily_uploads" does not exist'), { code: '42P01' });
    },
  });
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  await at.comes(['a 5'], ['a 5 uploaded']);
});
